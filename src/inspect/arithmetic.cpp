#include "attend/inspect/arithmetic.h"

#include <cmath>

#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/rnn.h"
#include "attend/models/transformer_model.h"
#include "attend/models/vision.h"

namespace attend {
namespace {

template <class Choice>
std::string name_of(Choice choice) {
  return std::string(names_of(choice)[static_cast<size_t>(choice)]);
}

RotaryArithmetic rotary_of(const RopeOptions& options, int64_t width) {
  RotaryArithmetic result{.frequencies = {}, .is_interleaved = options.interleaved};
  if (options.frequencies) {
    result.frequencies = options.frequencies.to_vector<double>();
    return result;
  }
  const int64_t dims = options.dims > 0 ? options.dims : width;
  for (int64_t i = 0; i < dims / 2; ++i) {
    result.frequencies.push_back(std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
  }
  return result;
}

template <class Stack>
StackArithmetic stack_of(const char* name, const Stack& stack, Positions positions) {
  const TransformerLayerConfig& config = stack.layers.front().config;
  const MultiheadAttentionConfig& attention = stack.layers.front().attention.config;
  StackArithmetic result{.name = name,
                         .layers = std::ssize(stack.layers),
                         .is_norm_first = config.norm_first,
                         .is_rms = config.rms_norm,
                         .eps = config.eps,
                         .activation = name_of(config.activation),
                         .is_gated = config.gated,
                         .has_final_norm = stack.norm.has_value(),
                         .positions = name_of(positions)};
  if (attention.rope) result.rotary = rotary_of(*attention.rope, attention.head_dim);
  if (attention.qk_norm) result.query_norm_eps = attention.qk_norm_eps;
  return result;
}

Arithmetic of(const Gpt& model) {
  Arithmetic result{.stacks = {stack_of("stack", model.layers, model.settings.positions)}};
  if (model.output_bias) result.output_bias = "output_bias";
  return result;
}

Arithmetic of(const TransformerModel& model) {
  Arithmetic result{.stacks = {stack_of("encoder", model.encoder, model.settings.positions),
                               stack_of("decoder", model.decoder, model.settings.positions)}};
  const double root = std::sqrt(static_cast<double>(model.settings.dim));
  for (StackArithmetic& stack : result.stacks) {
    if (model.settings.scale_embedding) stack.embedding_scale = root;
  }
  if (model.source_norm) result.stacks[0].embedding_norm = "source_norm";
  if (model.target_norm) result.stacks[1].embedding_norm = "target_norm";
  if (model.settings.scale_output) result.output_scale = 1 / root;
  if (model.output_bias) result.output_bias = "output.bias";
  return result;
}

Arithmetic of(const Encoder& model) {
  Arithmetic result{.stacks = {stack_of("stack", model.layers, model.settings.positions)}};
  result.stacks[0].embedding_norm = "embedding_norm";
  if (model.settings.labels.empty()) {
    if (!model.settings.masked) return result;
    result.masked_activation = name_of(model.settings.masked_gelu ? Activation::gelu : model.settings.activation);
    result.output_bias = "masked_bias";
    return result;
  }
  result.pooling = name_of(model.settings.pooling);
  if (model.pooler) result.pooler = name_of(model.settings.pooler);
  result.scores = name_of(model.settings.scores);
  return result;
}

Arithmetic of(const Vision& model) {
  Arithmetic result{.stacks = {stack_of("stack", model.layers, Positions::learned)}};
  if (model.settings.labels.empty()) return result;
  result.pooling = name_of(Pooling::first);
  result.scores = name_of(LabelScores::shares);
  return result;
}

Arithmetic of(const Rnn& model) {
  Arithmetic result{.stacks = {}, .output_bias = "output_bias", .cell = name_of(model.settings.cell)};
  if (model.look_back) result.score = name_of(model.settings.score);
  return result;
}

}  // namespace

Arithmetic arithmetic_of(const Model& model) {
  if (const auto* gpt = dynamic_cast<const Gpt*>(&model)) return of(*gpt);
  if (const auto* transformer = dynamic_cast<const TransformerModel*>(&model)) return of(*transformer);
  if (const auto* encoder = dynamic_cast<const Encoder*>(&model)) return of(*encoder);
  if (const auto* vision = dynamic_cast<const Vision*>(&model)) return of(*vision);
  if (const auto* rnn = dynamic_cast<const Rnn*>(&model)) return of(*rnn);
  return {};
}

}  // namespace attend
