#include "hub/pair_describe.h"

#include "attend/nn/cache.h"
#include "attend/nn/init.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend::hub {
namespace {

/// Returns the value of a parameter; `before` is empty if the original model does not have it.
using Value = std::function<Tensor(const std::string& name, const Tensor& before)>;

/// The model with other settings. transformers requires the output layer's bias in the files: it is 0 if the model has
/// none.
std::unique_ptr<Model> rewritten(const TransformerModel& from, TransformerModelConfig config, const Value& value) {
  config.output_bias = true;
  const BlankParameters scope;
  Rng rng;
  auto result = TransformerModel::create(config, rng);
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : from.parameters()) before[name] = tensor.detach();
  result->visit_parameters([&](const std::string& name, Tensor& parameter) {
    const bool is_new_bias = name == "output.bias" && !before.contains(name);
    parameter = is_new_bias ? zeros(parameter.shape()) : value(name, before[name]);
  });
  return result;
}

/// The axis of a parameter that holds the features of the residual stream; −1: none.
int64_t feature_axis(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (name == "output.bias") return -1;
  if (has("norm.") || has("attention.output.") || has(".down.")) return 0;
  return name.ends_with(".weight") ? 1 : -1;
}

Tensor reordered(const Tensor& x, int64_t axis, const std::vector<int64_t>& order) {
  if (axis < 0) return x;
  if (axis == 0) return select_rows(x, order);
  return contiguous(transpose(select_rows(contiguous(transpose(x, 0, 1)), order), 0, 1));
}

}  // namespace

Json pair_json(const TransformerModelConfig& c, Refusals& refusals) {
  const int64_t decoder_heads = c.decoder_heads > 0 ? c.decoder_heads : c.heads;
  const auto fits_both = [&](int64_t of_heads, int64_t total) {
    return of_heads == 0 || (of_heads * c.heads == total && of_heads * decoder_heads == total);
  };
  refusals.expect("rms_norm", c.rms_norm, false);
  refusals.expect("gated", c.gated, false);
  refusals.expect("bias", c.bias, true);
  refusals.expect("eps", c.eps, 1e-5);
  refusals.expect("scale_scores", c.scale_scores, true);
  refusals.expect("scale_output", c.scale_output, false);
  const bool has_all_keys = c.key_heads == 0 || (c.key_heads == c.heads && c.key_heads == decoder_heads);
  refusals.refuse_unless(has_all_keys, "key_heads", setting_text(c.key_heads), "0");
  refusals.refuse_unless(fits_both(c.head_dim, c.dim), "head_dim", setting_text(c.head_dim), "0");
  return {{"vocab_size", c.vocab_size},
          {"d_model", c.dim},
          {"encoder_layers", c.encoder_layers},
          {"decoder_layers", c.decoder_layers},
          {"encoder_attention_heads", c.heads},
          {"decoder_attention_heads", decoder_heads},
          {"encoder_ffn_dim", c.ffn_dim},
          {"decoder_ffn_dim", c.decoder_ffn_dim > 0 ? c.decoder_ffn_dim : c.ffn_dim},
          {"activation_function", activation_name(c.activation)},
          {"dropout", c.dropout},
          {"attention_dropout", c.dropout},
          {"activation_dropout", c.dropout},
          {"max_position_embeddings", c.context},
          {"scale_embedding", c.scale_embedding},
          {"tie_word_embeddings", c.tied},
          {"is_encoder_decoder", true}};
}

/// The order of features is arbitrary: permuting them in every layer puts all sines before all cosines.
std::unique_ptr<Model> with_wave_halves(const TransformerModel& model) {
  TransformerModelConfig config = model.settings;
  std::vector<int64_t> order;
  for (int64_t first = 0; first < 2; ++first) {
    for (int64_t i = first; i < config.dim; i += 2) order.push_back(i);
  }
  const bool is_so_already = std::exchange(config.wave_halves, true);
  return rewritten(model, config, [&](const std::string& name, const Tensor& before) {
    return is_so_already ? before : reordered(before, feature_axis(name), order);
  });
}

std::unique_ptr<Model> with_position_tables(const TransformerModel& model) {
  TransformerModelConfig config = model.settings;
  config.positions = Positions::learned;
  const Tensor table = model.waves ? slice(model.waves.rows(config.context), 0, 0, config.context).clone()
                                   : zeros({config.context, config.dim});
  return rewritten(model, config, [&](const std::string& name, const Tensor& before) {
    const bool is_table = name == "source_positions.weight" || name == "target_positions.weight";
    return is_table && !before ? table : before;
  });
}

}  // namespace attend::hub
