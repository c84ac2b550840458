#include "nano_sort.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "attend/autograd/autograd.h"
#include "attend/io/safetensors.h"
#include "attend/models/gpt.h"
#include "attend/nn/observer.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"

namespace attend::golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 255);
  }
  return bytes;
}

Tensor tensor_of(const Json& json) {
  const std::string bytes = from_base64(json.at("data"));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  const std::vector<int64_t> shape = json.at("shape");
  return tensor<float>(values, Shape(std::span(shape)));
}

Json published(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with("-model.json")) continue;
    std::ifstream in(entry.path());
    return Json::parse(in);
  }
  throw FormatError(folder.string() + ": there is no NAME-model.json");
}

/// The parameters under our names instead of minGPT's.
std::map<std::string, Tensor> our_parameters(const Json& json, int64_t dim) {
  std::map<std::string, Tensor> result;
  const auto get = [&](const std::string& name) { return tensor_of(json.at(name)); };
  result["embedding.weight"] = get("transformer.wte.weight");
  result["positions.weight"] = get("transformer.wpe.weight");
  result["output.weight"] = get("lm_head.weight");
  for (const std::string part : {".weight", ".bias"}) {
    result["stack.norm" + part] = get("transformer.ln_f" + part);
    for (int64_t i = 0; i < json.at("config").at("n_layer").get<int64_t>(); ++i) {
      const std::string theirs = "transformer.h." + std::to_string(i) + ".";
      const std::string ours = "stack.layers." + std::to_string(i) + ".";
      result[ours + "attention_norm" + part] = get(theirs + "ln_1" + part);
      result[ours + "feed_forward_norm" + part] = get(theirs + "ln_2" + part);
      result[ours + "attention.output" + part] = get(theirs + "attn.c_proj" + part);
      result[ours + "feed_forward.up" + part] = get(theirs + "mlp.c_fc" + part);
      result[ours + "feed_forward.down" + part] = get(theirs + "mlp.c_proj" + part);
      const Tensor joined = get(theirs + "attn.c_attn" + part);
      int64_t row = 0;
      for (const std::string name : {"query", "key", "value"}) {
        result[ours + "attention." + name + part] = contiguous(slice(joined, 0, row, row + dim));
        row += dim;
      }
    }
  }
  return result;
}

/// Records everything the model reports to an observer, under "path what".
class Notes : public AttentionRecorder {
 public:
  std::map<std::string, Tensor> values;

  void computed(std::string_view what, const Tensor& value) override {
    values[path() + " " + std::string(what)] = value.detach();
  }
};

}  // namespace

std::string check_nano_sort(const std::string& path) {
  const NoGrad scope;
  const SafetensorsFile file = SafetensorsFile::open(path);
  const Json json = published(fs::path(path).parent_path());
  const Json& c = json.at("config");
  Rng rng;
  const auto model = Gpt::create({.vocab_size = c.at("vocab_size"),
                                  .context = c.at("block_size"),
                                  .dim = c.at("n_embd"),
                                  .heads = c.at("n_head"),
                                  .layers = c.at("n_layer"),
                                  .tied = false},
                                 rng);
  load_parameters(*model, our_parameters(json, model->settings.dim));

  Notes notes;
  const Tensor hidden = model->hidden(to(file.tensor("idx"), DType::i64), {.observer = &notes});
  const Tensor logits = model->head().logits(hidden);
  const auto seen = [&](const std::string& name) { return notes.values.at(name); };
  const AttentionTrace& first = notes.traces.at(0);
  const std::string block = "stack.layers.0";
  const std::map<std::string, Tensor> ours{{"tok_emb", seen(" tokens")},
                                           {"x", seen(" embedded")},
                                           {"ln1", seen(block + ".attention normed")},
                                           {"q", first.q},
                                           {"k", first.k},
                                           {"v", first.v},
                                           {"attSm", first.weights().values},
                                           {"y", seen(block + ".attention attended")},
                                           {"yProj", seen(block + ".attention projected")},
                                           {"attnResid", seen(block + ".attention residual")},
                                           {"ln2", seen(block + ".feed_forward normed")},
                                           {"gelu", seen(block + ".feed_forward activated")},
                                           {"mlp", seen(block + ".feed_forward branch")},
                                           {"mlpResid", seen(block + ".feed_forward residual")},
                                           {"block0", seen(block + " output")},
                                           {"block1", seen("stack.layers.1 output")},
                                           {"block2", seen("stack.layers.2 output")},
                                           {"ln_f", hidden},
                                           {"lm_head", logits},
                                           {"probs", softmax(logits)}};
  for (const auto& [name, value] : ours) {
    const auto a = value.to_vector<double>(), b = file.tensor(name).to_vector<double>();
    if (a.size() != b.size()) return name + ": has another shape";
    double largest = 0, worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    if (!(worst <= 1e-4 * largest)) return name + " is off by " + std::to_string(worst);
  }
  return {};
}

}  // namespace attend::golden
