#include "inspect/structure.h"

#include "attend/base/error.h"
#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/rnn.h"
#include "attend/models/transformer_model.h"
#include "attend/models/vision.h"
#include "io/printable.h"

namespace attend {
namespace {

/// The single stack of a model that is not a pair model; null for others.
const TransformerEncoder* single_stack(const Model& model) {
  if (const auto* gpt = dynamic_cast<const Gpt*>(&model)) return &gpt->layers;
  if (const auto* encoder = dynamic_cast<const Encoder*>(&model)) return &encoder->layers;
  if (const auto* vision = dynamic_cast<const Vision*>(&model)) return &vision->layers;
  return nullptr;
}

LayerPlace place_of(const TransformerEncoderLayer& layer) {
  return {.norm_first = layer.config.norm_first,
          .branches = {{"attention", &layer.attention_norm, &layer.attention, nullptr},
                       {"feed_forward", &layer.feed_forward_norm, nullptr, &layer.feed_forward}}};
}
LayerPlace place_of(const TransformerDecoderLayer& layer) {
  return {.norm_first = layer.config.norm_first,
          .branches = {{"attention", &layer.attention_norm, &layer.attention, nullptr},
                       {"cross_attention", &layer.cross_attention_norm, &layer.cross_attention, nullptr},
                       {"feed_forward", &layer.feed_forward_norm, nullptr, &layer.feed_forward}}};
}

template <class Layers>
std::vector<LayerPlace> places_of(const Layers& layers) {
  std::vector<LayerPlace> result;
  for (const auto& layer : layers) result.push_back(place_of(layer));
  return result;
}

const Norm* norm_of(const std::optional<Norm>& norm) { return norm ? &*norm : nullptr; }

}  // namespace

std::vector<StackPlace> stacks_of(const Model& model) {
  if (const TransformerEncoder* stack = single_stack(model)) {
    return {{.name = "stack",
             .embedded = ":embedded",
             .tokens = ":tokens",
             .layers = std::ssize(stack->layers),
             .heads = stack->layers[0].attention.config.heads}};
  }
  StackPlace encoder{.name = "encoder", .embedded = "encoder:embedded", .tokens = "encoder:tokens"};
  StackPlace decoder{
      .name = "decoder", .embedded = "decoder:embedded", .tokens = "decoder:tokens", .side = 1, .has_cross = true};
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
    encoder.layers = std::ssize(pair->encoder.layers);
    encoder.heads = pair->encoder.layers[0].attention.config.heads;
    decoder.layers = std::ssize(pair->decoder.layers);
    decoder.heads = pair->decoder.layers[0].attention.config.heads;
  } else {
    encoder.embedded = encoder.tokens;
    decoder.embedded = decoder.tokens = ":words";
  }
  return {encoder, decoder};
}

Head head_of(const Model& model) {
  if (const auto* pair = dynamic_cast<const PairModel*>(&model)) return pair->head();
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) return language->head();
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return encoder->masked_head();
  throw Error("architecture " + model.architecture() + " does not predict words");
}

std::vector<std::string> labels_of(const Model& model) {
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return encoder->labels();
  if (const auto* image = dynamic_cast<const ImageModel*>(&model)) return image->labels();
  return {};
}

std::vector<LayerPlace> layers_of(const Model& model, const StackPlace& stack) {
  if (const TransformerEncoder* single = single_stack(model)) return places_of(single->layers);
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
    return stack.name == "encoder" ? places_of(pair->encoder.layers) : places_of(pair->decoder.layers);
  }
  return {};
}

const Norm* final_norm_of(const Model& model, const StackPlace& stack) {
  if (const TransformerEncoder* single = single_stack(model)) return norm_of(single->norm);
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
    return norm_of(stack.name == "encoder" ? pair->encoder.norm : pair->decoder.norm);
  }
  return nullptr;
}

const MultiheadAttention& attention_at(const Model& model, const std::vector<StackPlace>& stacks,
                                       const std::string& path) {
  for (const StackPlace& stack : stacks) {
    const std::vector<LayerPlace> layers = layers_of(model, stack);
    for (size_t i = 0; i < layers.size(); ++i) {
      for (const BranchPlace& branch : layers[i].branches) {
        if (branch.attention && stack.layer(static_cast<int64_t>(i)) + "." + branch.name == path) {
          return *branch.attention;
        }
      }
    }
  }
  throw ShapeError("there is no attention module " + in_quotes(path));
}

}  // namespace attend
