#include "attend/hub/convert.h"

#include <unistd.h>

#include <filesystem>

#include "attend/io/files.h"
#include "hub/architecture.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;

const hub::HubArchitecture& writable(const std::string& to) {
  std::string names;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe == nullptr) continue;
    if (one.model_type == to) return one;
    names += names.empty() ? one.model_type : ", " + one.model_type;
  }
  throw Error("convert: there is no architecture '" + to + "' to write; there are " + names);
}

/// The ids a text begins and ends with. Our language models put the end between texts, and have no other begin.
struct Marks {
  int32_t begin, end, pad;
};
Marks marks_of(const Model& model, const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  const bool is_language = model.task() == Task::language && special.end >= 0;
  return {is_language ? special.end : special.begin, special.end, special.pad};
}

Ordered token_ids(const Marks& marks) {
  Ordered json = Ordered::object();
  const auto add = [&](const char* name, int32_t id) { json[name] = id >= 0 ? Ordered(id) : Ordered(nullptr); };
  add("bos_token_id", marks.begin);
  add("eos_token_id", marks.end);
  add("pad_token_id", marks.pad);
  return json;
}

/// The same, and what a decoder starts from.
Ordered generation_json(const Model& model, const Tokenizer& tokenizer) {
  const Marks marks = marks_of(model, tokenizer);
  Ordered json = token_ids(marks);
  if (model.task() != Task::translation) return json;
  json["decoder_start_token_id"] = marks.begin >= 0 ? marks.begin : marks.end;
  json["max_length"] = model.context();
  if (marks.pad >= 0) json["bad_words_ids"] = Ordered::array({Ordered::array({marks.pad})});
  return json;
}

/// What AutoTokenizer needs to know beside the tokenizer's own file.
Ordered tokenizer_config(const Model& model, const Tokenizer& tokenizer, bool is_sentencepiece) {
  const SpecialTokens& special = tokenizer.special();
  const Marks marks = marks_of(model, tokenizer);
  Ordered json{{"tokenizer_class", is_sentencepiece ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
               {"model_max_length", model.context()},
               {"clean_up_tokenization_spaces", false}};
  const auto add = [&](const char* name, int32_t id) {
    if (id >= 0) json[name] = tokenizer.token(id);
  };
  add("bos_token", marks.begin);
  add("eos_token", marks.end);
  add("pad_token", marks.pad);
  add("unk_token", special.unknown);
  add("mask_token", special.mask);
  if (model.task() == Task::language) json["add_bos_token"] = json["add_eos_token"] = false;
  if (model.task() == Task::translation) json["add_bos_token"] = false, json["add_eos_token"] = true;
  return json;
}

/// What goes around a text: nothing for a language model, the end behind the text of an encoder–decoder.
void set_template(const Model& model, const Tokenizer& tokenizer, const std::string& path) {
  Ordered json = Ordered::parse(read_file(path));
  json["post_processor"] = nullptr;
  if (const int32_t end = tokenizer.special().end; model.task() == Task::translation && end >= 0) {
    const std::string name = tokenizer.token(end);
    const auto sequence = [](const char* id) { return Ordered{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
    const Ordered mark{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
    Ordered known = Ordered::object();
    known[name] = {{"id", name}, {"ids", Ordered::array({end})}, {"tokens", Ordered::array({name})}};
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", Ordered::array({sequence("A"), mark})},
                              {"pair", Ordered::array({sequence("A"), sequence("B"), mark})},
                              {"special_tokens", known}};
  }
  write_file(path, json.dump());
}

void save_tokenizer(const Model& model, const Tokenizer& tokenizer, const std::string& folder) {
  tokenizer.save(folder);
  const bool is_json = fs::exists(folder + "/tokenizer.json");
  const bool has_own = model.task() == Task::language || model.task() == Task::translation;
  if (is_json && has_own) set_template(model, tokenizer, folder + "/tokenizer.json");
  write_file(folder + "/tokenizer_config.json", tokenizer_config(model, tokenizer, !is_json).dump(2) + "\n");
}

}  // namespace

std::vector<std::string> hub_targets(const Model& model) {
  std::vector<std::string> result;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe == nullptr) continue;
    try {
      one.describe(model);
      result.push_back(one.model_type);
    } catch (const Error&) {  // it has a setting the architecture has not
    }
  }
  return result;
}

void save_hub_model(const Model& model, const Tokenizer& tokenizer, const std::string& to, const std::string& folder) {
  const hub::HubArchitecture& architecture = writable(to);
  require<Error>(!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder)), folder,
                 ": is there already; nothing was overwritten");
  Ordered config = architecture.describe(model);
  const std::unique_ptr<Model> prepared = architecture.prepare ? architecture.prepare(model) : nullptr;
  const Model& written = prepared ? *prepared : model;
  config["model_type"] = to;
  config.update(generation_json(model, tokenizer));
  config.erase("max_length");  // those of generation are in a file of their own
  config.erase("bad_words_ids");
  config["dtype"] = config["torch_dtype"] = "float32";
  const hub::HubFolder described{folder, hub::HubConfig(config.dump(), folder + "/config.json"),
                                 hub::HubWeights::from_tensors({}, folder)};
  const std::vector<NamedTensor> weights = hub::weights_of(written, architecture.names(described, written));

  const std::string temporary = folder + ".new-" + std::to_string(getpid());
  try {
    fs::create_directories(temporary);
    write_safetensors(temporary + "/model.safetensors", weights, {{"format", "pt"}});
    write_file(temporary + "/config.json", config.dump(2) + "\n");
    write_file(temporary + "/generation_config.json", generation_json(model, tokenizer).dump(2) + "\n");
    save_tokenizer(model, tokenizer, temporary);
    fs::rename(temporary, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace attend
