// Text encoders and image encoders.

#include "attend/autograd/autograd.h"
#include "attend/models/encoder.h"
#include "attend/tensor/creation.h"
#include "model.h"

namespace attend::golden {
Tensor lengths_of(const Tensor& mask) {
  const auto values = mask.to_vector<int64_t>();
  std::vector<int64_t> lengths(static_cast<size_t>(mask.dim(0)));
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t& length = lengths[i / static_cast<size_t>(mask.dim(1))];
    require<FormatError>(values[i] == 0 || length == static_cast<int64_t>(i) % mask.dim(1),
                         "in.attention_mask: padding before a token");
    length += values[i];
  }
  return attend::tensor<int64_t>(lengths, {mask.dim(0)});
}

void check_encoder(ModelCase& reference) {
  const NoGrad scope;
  const auto* model = dynamic_cast<const Encoder*>(reference.loaded().model.get());
  require<FormatError>(model != nullptr, "expected an encoder");
  const Tensor mask = reference.tensor("in.attention_mask");
  TextInputs inputs{.ids = reference.tensor("in.input_ids"), .lengths = lengths_of(mask)};
  if (reference.has("in.token_type_ids")) inputs.types = reference.tensor("in.token_type_ids");
  LayerRecorder seen;  // with an observer, padding is computed too, as in the reference
  const Tensor hidden = model->hidden(inputs, {.observer = &seen});
  reference.expect_close("out.last_hidden", hidden);
  for (size_t layer = 0; layer < seen.traces.size(); ++layer) {
    const std::string number = std::to_string(layer);
    reference.expect_close("out.hidden." + number, seen.inputs[layer]);
    reference.expect_weights("out.attentions." + number, seen.traces[layer].weights().values);
  }
  reference.expect_close("out.hidden." + std::to_string(seen.traces.size()), hidden);
  reference.expect_close("out.last_hidden", model->hidden(inputs), mask);  // packed: real tokens only
  if (reference.has("out.pooled")) reference.expect_close("out.pooled", model->pooled(inputs));
  if (!reference.has("out.logits")) return;
  if (model->classifier) return reference.expect_close("out.logits", model->classify(inputs));
  reference.expect_close("out.logits", model->masked_head().logits(model->masked_hidden(inputs)), mask);
}

void check_image_classifier(ModelCase& reference) {
  const NoGrad scope;
  const auto* model = dynamic_cast<const ImageModel*>(reference.loaded().model.get());
  require<FormatError>(model != nullptr, "expected a model of pictures");
  LayerRecorder seen;
  reference.expect_close("out.logits", model->classify(reference.tensor("in.pixel_values"), {.observer = &seen}));
  for (size_t layer = 0; layer < seen.traces.size(); ++layer) {
    reference.expect_weights("out.attentions." + std::to_string(layer), seen.traces[layer].weights().values);
  }
}

}  // namespace attend::golden
