#include "serve/prompt_scores.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/top.h"

namespace attend {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // rows of logits in memory, each as long as the vocabulary

}  // namespace

std::vector<TokenRecord> prompt_scores(const ModelEntry& model, std::span<const int32_t> prompt, int64_t count) {
  const NoGrad scope;
  const BatchInvariantScope alone;
  const auto& language = dynamic_cast<const LanguageModel&>(model.model());
  std::vector<TokenRecord> records{{.id = prompt[0], .has_log_probability = false}};
  const std::vector<int64_t> ids(prompt.begin(), prompt.end());
  const Tensor hidden = select(language.hidden(tensor<int64_t>(ids, {1, std::ssize(ids)})), 0, 0);  // [length, dim]
  const Head head = language.head();
  std::vector<Continuation> best;
  for (int64_t begin = 0; begin + 1 < std::ssize(ids); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, std::ssize(ids) - 1);
    const Tensor logs = log_softmax(head.logits(contiguous(slice(hidden, 0, begin, end))));
    const auto values = to(logs, kCpu).to_vector<float>();
    const auto width = static_cast<size_t>(logs.dim(1));
    for (int64_t row = begin; row < end; ++row) {
      const auto own = std::span(values).subspan(static_cast<size_t>(row - begin) * width, width);
      TokenRecord record{.id = prompt[static_cast<size_t>(row + 1)]};
      record.log_probability = own[static_cast<size_t>(record.id)];
      top_values(own.first(static_cast<size_t>(model.vocabulary.size)), count, best);
      for (const Continuation& one : best) record.top.push_back({.id = one.id, .log_probability = one.value});
      if (count == 0) record.top.clear();
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace attend
