// Encoder–decoder models: logits, attention, greedy and beam search.

#include "attend/autograd/autograd.h"
#include "attend/generate/search.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "model.h"

namespace attend::golden {
namespace {

/// The entry out.NAME.LAYER for the attention module at this path.
std::string map_name(const std::string& path) {
  const std::string layer = path.substr(path.find("layers.") + 7, path.rfind('.') - path.find("layers.") - 7);
  const char* name = path.starts_with("encoder")         ? "encoder_attentions."
                     : path.ends_with("cross_attention") ? "cross_attentions."
                                                         : "decoder_attentions.";
  return "out." + std::string(name) + layer;
}

/// The output of the search with start and end tokens, at most as long as the reference.
std::vector<int64_t> written(ModelCase& reference, const PairModel& model, int64_t beam, size_t most) {
  const auto tokenizer = load_tokenizer(reference.folder());
  const GenerationRules& rules = reference.loaded().rules;
  const auto source = select(reference.tensor("in.input_ids"), 0, 0).to_vector<int64_t>();
  const std::vector<std::vector<int32_t>> sources{{source.begin(), source.end()}};
  SearchOptions options{.beam = beam, .max_length = static_cast<int64_t>(most) - 1, .rules = rules};
  options.stop = SearchStop::likely;
  options.ends_at_limit = false;
  std::vector<int64_t> result{rules.start};
  search(model, *tokenizer, sources, options, [&](int64_t, std::vector<Hypothesis> best) {
    result.insert(result.end(), best[0].ids.begin(), best[0].ids.end());
    if (result.size() < most) result.push_back(rules.ends.at(0));
  });
  return result;
}

}  // namespace

void check_seq2seq(ModelCase& reference) {
  const NoGrad scope;
  const auto* model = dynamic_cast<const TransformerModel*>(reference.loaded().model.get());
  require<FormatError>(model != nullptr, "expected a model of pairs");
  const PairInputs inputs{.source = reference.tensor("in.input_ids"),
                          .source_lengths = lengths_of(reference.tensor("in.attention_mask")),
                          .target = reference.tensor("in.decoder_input_ids")};
  const Tensor logits = model->head().logits(model->hidden(inputs));
  reference.expect_close("out.logits", logits);
  reference.expect_close("out.encoder_last_hidden", model->encode(inputs.source, inputs.source_lengths));
  const auto decoding = model->start(inputs.source, inputs.source_lengths);
  for (int64_t t = 0; t < inputs.target.dim(1); ++t) {  // token by token with a cache
    const Tensor step = decoding->step(contiguous(slice(inputs.target, 1, t, t + 1)));
    reference.expect_same("word " + std::to_string(t) + " with a cache", step, select(logits, 1, t));
  }
  for (const auto& [name, beam] : {std::pair("out.greedy", 1), std::pair("out.beam4", 4)}) {
    if (!reference.has(name)) continue;
    reference.expect_ids(name, written(reference, *model, beam, reference.ids(name).size()));
  }
  LayerRecorder seen;
  model->hidden(inputs, {.observer = &seen});
  for (const AttentionTrace& trace : seen.traces) {
    reference.expect_weights(map_name(trace.path), trace.weights().values);
  }
}

}  // namespace attend::golden
