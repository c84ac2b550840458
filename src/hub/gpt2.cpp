#include "attend/models/gpt.h"
#include "hub/architecture.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  GptConfig config{.words = c.size("vocab_size", kMostWords, 50257),
                   .context = c.size("n_positions", kMostContext, 1024),
                   .dim = c.size("n_embd", kMostWidth, 768),
                   .heads = c.size("n_head", kMostWidth, 12),
                   .layers = c.size("n_layer", kMostLayers, 12),
                   .hidden = c.size("n_inner", kMostWidth, 0),
                   .activation = c.activation("activation_function", "gelu_new")};
  Rng rng;
  return Gpt::create(config, rng);
}

/// GPT-2's projections are "Conv1D": [in, out].
NameMap names(const HubFolder&, const Model&) {
  NameMap map{.prefix = "transformer."};
  map.add("wte.weight", "embedding.weight");
  map.add("wpe.weight", "positions.weight");
  map.add_both("h.{}.ln_1", "stack.layers.{}.attention_norm");
  map.add_joined("h.{}.attn.c_attn",
                 {"stack.layers.{}.attention.query", "stack.layers.{}.attention.key", "stack.layers.{}.attention.value"},
                 Layout::transposed);
  map.add_both("h.{}.attn.c_proj", "stack.layers.{}.attention.output", Layout::transposed);
  map.add_both("h.{}.ln_2", "stack.layers.{}.feed_forward_norm");
  map.add_both("h.{}.mlp.c_fc", "stack.layers.{}.feed_forward.up", Layout::transposed);
  map.add_both("h.{}.mlp.c_proj", "stack.layers.{}.feed_forward.down", Layout::transposed);
  map.add_both("ln_f", "stack.norm");
  map.ignored = {"h.*.attn.bias", "h.*.attn.masked_bias", "lm_head.weight"};
  return map;
}

}  // namespace

HubArchitecture gpt2() { return {.model_type = "gpt2", .create = create, .names = names}; }

}  // namespace attend::hub
