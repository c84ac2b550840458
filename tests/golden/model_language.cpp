// Language models: logits, hidden states, attention, greedy and beam search.

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/generate/search.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "model.h"

namespace attend::golden {
namespace {

Tensor as_rows(const std::vector<int64_t>& ids) { return attend::tensor<int64_t>(ids, {1, std::ssize(ids)}); }

/// Greedy decoding: appends the most likely token at each step.
std::vector<int64_t> greedy(const LanguageModel& model, std::vector<int64_t> ids, size_t length) {
  const auto decoding = model.start();
  Tensor logits = decoding->step(as_rows(ids));
  while (true) {
    const auto values = logits.to_vector();
    ids.push_back(std::ranges::max_element(values) - values.begin());
    if (ids.size() == length) return ids;
    logits = decoding->step(as_rows({ids.back()}));
  }
}

std::vector<int64_t> beam(const LanguageModel& model, const std::vector<int64_t>& ids) {
  const std::vector<std::vector<int32_t>> prompts{{ids.begin(), ids.end()}};
  const SearchOptions options{.beam = 4, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 24};
  std::vector<int64_t> result = ids;
  search(model, {.size = model.vocab_size(), .banned = {}, .ends = {4}}, prompts, options,
         [&](int64_t, std::vector<Hypothesis> best) {
           result.insert(result.end(), best[0].ids.begin(), best[0].ids.end());
           if (!best[0].is_cut) result.push_back(4);
         });
  return result;
}

}  // namespace

void check_causal_lm(ModelCase& reference) {
  const NoGrad scope;
  const auto* model = dynamic_cast<const LanguageModel*>(reference.loaded().model.get());
  require<FormatError>(model != nullptr, "expected a language model");
  const Tensor batch = reference.tensor("in.input_ids"), real = reference.tensor("in.attention_mask");
  const Tensor first = contiguous(slice(batch, 0, 0, 1));
  LayerRecorder seen;
  const Tensor hidden = model->hidden(first, {.observer = &seen});
  reference.expect_close("out.logits", model->head().logits(hidden));
  for (size_t layer = 0; layer < seen.traces.size(); ++layer) {
    const std::string number = std::to_string(layer);
    reference.expect_close("out.hidden." + number, seen.inputs[layer]);
    reference.expect_weights("out.attentions." + number, seen.traces[layer].weights().values);
  }
  reference.expect_close("out.hidden." + std::to_string(seen.traces.size()), hidden);
  reference.expect_close("out.logits_batch", model->head().logits(model->hidden(batch)), real);

  const auto prompt = first.to_vector<int64_t>();
  reference.expect_ids("out.greedy", greedy(*model, prompt, reference.ids("out.greedy").size()));
  if (reference.has("out.beam4")) reference.expect_ids("out.beam4", beam(*model, prompt));
}

}  // namespace attend::golden
