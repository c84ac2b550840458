#include "attend/models/registry.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "attend/io/files.h"
#include "attend/io/safetensors.h"
#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/rnn.h"
#include "attend/models/transformer_model.h"
#include "attend/nn/init.h"
#include "attend/tensor/creation.h"
#include "io/json_depth.h"
#include "models/settings_json.h"

namespace attend {
namespace {

/// The description of one architecture.
struct Entry {
  Architecture about;
  std::vector<SettingInfo> (*settings)();
  std::unique_ptr<Model> (*create)(const Json& config, Rng& rng);
  Json (*complete)(const Json& config);  ///< adds the defaults of missing settings
  Json tiny, small, base;
};

std::unique_ptr<Model> create_rnn(const Json& config, Rng& rng) {
  return Rnn::create(config_from<RnnConfig>(config), false, rng);
}
std::unique_ptr<Model> create_rnn_attention(const Json& config, Rng& rng) {
  return Rnn::create(config_from<RnnConfig>(config), true, rng);
}
template <class Config>
Json completed(const Json& config) {
  return settings_json(config_from<Config>(config));
}
template <class M, class Config>
std::unique_ptr<Model> create_as(const Json& config, Rng& rng) {
  return M::create(config_from<Config>(config), rng);
}

const std::vector<Entry>& entries() {
  static const Json rnn_tiny{{"dim", 128}, {"state_dim", 256}}, rnn_small{{"dim", 256}, {"state_dim", 512}},
      rnn_base{{"dim", 512}, {"state_dim", 1024}};
  static const std::vector<Entry> all{
      {{"rnn", "encoder–decoder that compresses a sentence into one vector", ModelKind::translation},
       config_settings<RnnConfig>,
       create_rnn,
       completed<RnnConfig>,
       rnn_tiny,
       rnn_small,
       rnn_base},
      {{"rnn-attention", "encoder–decoder with attention (Bahdanau, Luong)", ModelKind::translation},
       config_settings<RnnConfig>,
       create_rnn_attention,
       completed<RnnConfig>,
       rnn_tiny,
       rnn_small,
       rnn_base},
      {{"transformer", "encoder–decoder of \"Attention Is All You Need\"", ModelKind::translation},
       config_settings<TransformerModelConfig>,
       create_as<TransformerModel, TransformerModelConfig>,
       completed<TransformerModelConfig>,
       {{"dim", 128}, {"heads", 4}, {"ffn_dim", 256}, {"encoder_layers", 4}, {"decoder_layers", 4}},
       {{"dim", 256}, {"heads", 4}, {"ffn_dim", 1024}, {"encoder_layers", 4}, {"decoder_layers", 4}},
       {{"dim", 512}, {"heads", 8}, {"ffn_dim", 2048}, {"encoder_layers", 6}, {"decoder_layers", 6}}},
      {{"gpt", "decoder-only language model", ModelKind::language},
       config_settings<GptConfig>,
       create_as<Gpt, GptConfig>,
       completed<GptConfig>,
       {{"dim", 128}, {"heads", 4}, {"layers", 4}, {"context", 128}},
       {{"dim", 384}, {"heads", 6}, {"layers", 6}, {"context", 256}},
       {{"dim", 768}, {"heads", 12}, {"layers", 12}, {"context", 1024}}},
      {{"encoder", "encoder-only, for classification", ModelKind::classification},
       config_settings<EncoderConfig>,
       create_as<Encoder, EncoderConfig>,
       completed<EncoderConfig>,
       {{"dim", 128}, {"heads", 4}, {"layers", 2}},
       {{"dim", 256}, {"heads", 4}, {"layers", 4}},
       {{"dim", 768}, {"heads", 12}, {"layers", 12}}}};
  return all;
}

const Entry& entry_of(std::string_view architecture) {
  std::string names;
  for (const Entry& entry : entries()) {
    if (entry.about.name == architecture) return entry;
    names += (names.empty() ? "" : ", ") + entry.about.name;
  }
  throw Error("unknown architecture '" + std::string(architecture) + "'; expected one of " + names);
}

Json parse_config(const std::string& text) {
  require<FormatError>(is_shallow_json(text), "config: the JSON is nested too deep");
  const Json json = Json::parse_or_null(text);
  require<FormatError>(json.is_object(), "config: expected a JSON object");
  const auto architecture = json.find("architecture");
  require<FormatError>(architecture != json.end() && architecture->is_string(), "config: \"architecture\" is missing");
  return json;
}

/// Throws FormatError if the config describes a matrix larger than the weight file. A model is allocated before its
/// weights are read, so this limits the memory that a damaged config can allocate.
void check_sizes(const std::string& config, const SafetensorsFile& file) {
  const Json given = parse_config(config);
  const std::string architecture = given["architecture"].string();
  const Json json = entry_of(architecture).complete(given);
  const auto number = [&](const char* name) { return json.contains(name) ? json[name].get<double>() : 0.0; };
  double values = 0;
  for (const TensorInfo& info : file.tensors()) values += static_cast<double>(info.shape.numel());
  const double dim = number("dim"), ffn_dim = number("ffn_dim"), state_dim = number("state_dim");
  const double layers = number("layers") + number("encoder_layers") + number("decoder_layers");
  const double inner = number("head_dim") > 0 ? number("heads") * number("head_dim") : dim;
  const double square = architecture.starts_with("rnn") ? state_dim * state_dim : dim * inner;
  const bool learned = json.value("positions", "") == "learned";
  const double positions =
      number("context") * dim;  // only learned positions are in the file; other tables grow with the texts
  const double largest = std::max(
      {number("vocab_size") * dim, layers * square, dim * std::max(ffn_dim, state_dim), learned ? positions : 0.0});
  require<FormatError>(largest <= values, "config.json describes matrices of ", largest,
                       " values, but model.safetensors has only ", values);
}

std::unique_ptr<Model> create_blank(const std::string& config) {
  const BlankParameters scope;
  Rng rng;
  return create_model(config, rng);
}

}  // namespace

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> result = [] {
    std::vector<Architecture> all;
    for (const Entry& entry : entries()) all.push_back(entry.about);
    return all;
  }();
  return result;
}

std::vector<SettingInfo> settings_of(std::string_view architecture) { return entry_of(architecture).settings(); }

std::string preset_config(std::string_view architecture, std::string_view preset) {
  const Entry& entry = entry_of(architecture);
  require<Error>(preset == "tiny" || preset == "small" || preset == "base", "unknown preset '", preset,
                 "'; expected tiny, small or base");
  Json json = preset == "tiny" ? entry.tiny : preset == "small" ? entry.small : entry.base;
  json["architecture"] = entry.about.name;
  return json.dump();
}

std::string with_settings(const std::string& config, const std::map<std::string, std::string>& settings) {
  Json json = parse_config(config);
  const std::string architecture = json["architecture"].string();
  const std::vector<SettingInfo> known = settings_of(architecture);
  for (const auto& [name, text] : settings) {
    const SettingInfo* info = find_setting(known, name);
    require<SettingError>(info, "'", name, "' is not a setting of architecture ", architecture);
    require<SettingError>(name == info->name || !settings.contains(info->name), "'", name, "' is the former name of '",
                          info->name, "': give one of them");
    json[info->name] = setting_value(*info, text);
  }
  return json.dump();
}

std::unique_ptr<Model> create_model(const std::string& config, Rng& rng) {
  const Json json = parse_config(config);
  return entry_of(json["architecture"].get<std::string>()).create(json, rng);
}

void save_model(const Model& model, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : model.parameters()) tensors.emplace_back(name, tensor.detach());
  write_safetensors(folder + "/model.safetensors", tensors, {{"format", "attend"}});
  write_file(folder + "/config.json", model.config() + "\n");
}

std::unique_ptr<Model> load_model(const std::string& folder, const LoadOptions& options) {
  require<FormatError>(std::filesystem::is_directory(folder), folder, ": no such model folder");
  const std::string config_path = folder + "/config.json", weights_path = folder + "/model.safetensors";
  for (const std::string& path : {config_path, weights_path}) {
    require<FormatError>(std::filesystem::exists(path), folder, ": this is not a model folder, it has no ",
                         std::filesystem::path(path).filename().string());
  }
  try {
    const SafetensorsFile file = SafetensorsFile::open(weights_path);
    const std::string config = read_file(config_path, 16 << 20);
    check_sizes(config, file);
    std::unique_ptr<Model> model = create_blank(config);
    std::map<std::string, Tensor> values;
    for (const TensorInfo& info : file.tensors()) values[info.name] = file.tensor(info.name);
    check_values(model->parameters(), values);
    model->visit_parameters([&](const std::string& name, Tensor& parameter) {
      const Tensor& value = values[name];
      parameter = options.in_place ? to(value, DType::f32) : attend::parameter(to(value.clone(), DType::f32));
    });
    return model;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(folder) ? what : folder + ": " + what);
  }
}

}  // namespace attend
