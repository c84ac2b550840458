#include "hub/llama2c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "attend/nn/init.h"
#include "hub/language.h"
#include "io/mapped_file.h"

namespace attend::hub {
namespace {

namespace fs = std::filesystem;

struct Header {
  int32_t dim, ffn_dim, layers, heads, key_heads, vocab_size, context;
};

int64_t count(const Shape& shape) { return shape.numel(); }

/// Cuts tensors off the front of a mapped file.
class Weights {
 public:
  explicit Weights(const MappedFile& file) : file_(file) {}

  Tensor next(const Shape& shape) {
    const size_t bytes = static_cast<size_t>(count(shape)) * sizeof(float);
    auto storage = std::make_shared<Storage>(file_.bytes.data() + at_, bytes, kCpu, file_.owner);
    at_ += bytes;
    return {std::move(storage), DType::f32, shape, contiguous_strides(shape)};
  }

 private:
  const MappedFile& file_;
  size_t at_ = sizeof(Header);
};

bool is_sane(const Header& h) {
  const std::array widths{h.dim, h.ffn_dim, h.heads, h.key_heads};
  return std::ranges::all_of(widths, [](int32_t n) { return n >= 1 && n <= kMostWidth; }) && h.layers >= 1 &&
         h.layers <= kMostLayers && h.vocab_size != 0 && std::abs(int64_t{h.vocab_size}) <= kMostVocab &&
         h.context >= 1 && h.context <= kMostContext && h.dim % h.heads == 0 && h.dim / h.heads % 2 == 0 &&
         h.heads % h.key_heads == 0;
}

/// In doubles, because the sizes in a damaged header can overflow 64 bits.
double expected_bytes(const Header& h) {
  const double dim = h.dim, layers = h.layers, words = std::abs(double(h.vocab_size)),
               key_dim = dim / h.heads * h.key_heads;
  const double layer = 2 * dim + 2 * dim * dim + 2 * dim * key_dim + 3 * dim * h.ffn_dim;
  const double values =
      words * dim * (h.vocab_size < 0 ? 2 : 1) + layers * layer + dim + double(h.context) * (dim / h.heads);
  return sizeof(Header) + 4 * values;
}

/// A file whose size matches its header. Both come from one mapping, because the file may be replaced at any time.
struct CheckedFile {
  Header header;
  MappedFile file;
};
std::optional<CheckedFile> checked(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || !path.ends_with(".bin")) return {};
  CheckedFile result{.header = {}, .file = map_file(path)};
  if (result.file.bytes.size() < sizeof(Header)) return {};
  std::memcpy(&result.header, result.file.bytes.data(), sizeof(Header));
  const auto size = static_cast<double>(result.file.bytes.size());
  if (!is_sane(result.header) || expected_bytes(result.header) != size) return {};
  return result;
}

/// The weights under Llama's names.
std::map<std::string, Tensor> named(const Header& h, const MappedFile& file) {
  const int64_t dim = h.dim, key_dim = dim / h.heads * h.key_heads, words = std::abs(h.vocab_size);
  Weights weights(file);
  std::map<std::string, Tensor> result;
  const auto each_layer = [&](const std::string& name, const Shape& shape) {
    for (int32_t i = 0; i < h.layers; ++i) {
      result["model.layers." + std::to_string(i) + "." + name + ".weight"] = weights.next(shape);
    }
  };
  result["model.embed_tokens.weight"] = weights.next({words, dim});
  each_layer("input_layernorm", {dim});
  each_layer("self_attn.q_proj", {dim, dim});
  each_layer("self_attn.k_proj", {key_dim, dim});
  each_layer("self_attn.v_proj", {key_dim, dim});
  each_layer("self_attn.o_proj", {dim, dim});
  each_layer("post_attention_layernorm", {dim});
  each_layer("mlp.gate_proj", {h.ffn_dim, dim});
  each_layer("mlp.down_proj", {dim, h.ffn_dim});
  each_layer("mlp.up_proj", {h.ffn_dim, dim});
  result["model.norm.weight"] = weights.next({dim});
  weights.next({h.context, dim / h.heads});  // cosines and sines, which attend computes
  if (h.vocab_size < 0) result["lm_head.weight"] = weights.next({words, dim});
  return result;
}

}  // namespace

std::optional<std::string> find_llama2c(const std::string& path) {
  if (!fs::is_directory(path)) return checked(path) ? std::optional(path) : std::nullopt;
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_symlink() && checked(entry.path())) found.push_back(entry.path());
  }
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

LoadedModel load_llama2c(const std::string& path) {
  const std::optional<CheckedFile> file = checked(path);
  require<FormatError>(file.has_value(), path, ": expected a llama2.c model");
  const Header& h = file->header;
  const GptConfig config{.vocab_size = std::abs(h.vocab_size),
                         .context = h.context,
                         .dim = h.dim,
                         .heads = h.heads,
                         .key_heads = h.key_heads,
                         .layers = h.layers,
                         .ffn_dim = h.ffn_dim,
                         .activation = Activation::silu,
                         .gated = true,
                         .rms_norm = true,
                         .bias = false,
                         .positions = Positions::rotary,
                         .dropout = 0,
                         .tied = h.vocab_size > 0};
  const HubFolder folder{path, HubConfig("{}", path), HubWeights::from_tensors(named(h, file->file), path)};
  LoadedModel result{.kind = "llama2.c"};
  {
    const BlankParameters scope;
    result.model = create_language_model(folder, config);
  }
  NameMap map = llama_names(folder, *result.model);
  for (Rule& rule : map.rules) {
    const bool is_turned = rule.theirs.ends_with("q_proj.weight") || rule.theirs.ends_with("k_proj.weight");
    if (is_turned) rule.layout = Layout::interleaved, rule.head_dim = h.dim / h.heads;
  }
  load_weights(*result.model, map, folder.weights);
  result.rules.as_transformers = true;
  result.rules.ends = {1, 2};  // <s> separates stories
  return result;
}

}  // namespace attend::hub
