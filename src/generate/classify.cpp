#include "attend/generate/classify.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/softmax.h"
#include "generate/encode.h"
#include "generate/id_rows.h"
#include "generate/top.h"

namespace attend {

std::vector<Classified> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> texts, int64_t batch_tokens) {
  require<ShapeError>(batch_tokens >= 1, "classify: batch_tokens must be at least 1, got ", batch_tokens);
  Vocabulary::of(tokenizer, model.words());  // throws where they do not fit
  const NoGrad scope;
  std::vector<Classified> results(texts.size());
  std::vector<std::vector<int32_t>> rows(texts.size());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    EncodedText text = encode_classified(tokenizer, texts[i], model.context());
    if (!text.is_blank) rows[i] = std::move(text.ids);
    results[i].tokens = std::ssize(rows[i]);
    results[i].is_cut = text.is_cut;
    lengths.push_back(results[i].tokens);
  }
  for (const Batch& batch : group_by_length(lengths, {.tokens = batch_tokens})) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) continue;  // blank ones are among themselves
    const IdRows read = pad_rows(rows, batch);
    const Tensor shares = softmax(model.classify({.ids = read.ids, .lengths = read.lengths}));
    const auto values = shares.to_vector<double>();
    for (size_t row = 0; row < batch.size(); ++row) {
      const auto first = values.begin() + static_cast<ptrdiff_t>(row) * shares.dim(1);
      Classified& result = results[static_cast<size_t>(batch[row])];
      result.probabilities.assign(first, first + shares.dim(1));
      result.label = std::ranges::max_element(result.probabilities) - result.probabilities.begin();
    }
  }
  return results;
}

}  // namespace attend
