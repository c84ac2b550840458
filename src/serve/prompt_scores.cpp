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

PromptScorer::PromptScorer(const ModelEntry& model, std::vector<int32_t> prompt, int64_t count)
    : model_(model),
      prompt_(std::move(prompt)),
      count_(count),
      reader_(TextReader::create(model.model(), prompt_, model.cache_bytes)) {
  records_.push_back({.id = prompt_[0], .has_log_probability = false});
}

int64_t PromptScorer::advance(int64_t tokens) {
  const NoGrad scope;
  const BatchInvariantScope alone;
  if (!hidden_ || scored_ == hidden_.dim(0)) read(tokens);
  // The last token predicts no token of the prompt.
  const int64_t rows = std::min({tokens, hidden_.dim(0) - scored_, std::ssize(prompt_) - std::ssize(records_)});
  for (int64_t done = 0; done < rows; done += kRowsAtOnce) score(std::min(kRowsAtOnce, rows - done));
  return rows;
}

void PromptScorer::read(int64_t tokens) {
  scored_ = 0;
  if (reader_) {
    hidden_ = reader_->read(tokens);
    return;
  }
  const auto& language = dynamic_cast<const LanguageModel&>(model_.model());
  const std::vector<int64_t> ids(prompt_.begin(), prompt_.end());
  hidden_ = select(language.hidden(tensor<int64_t>(ids, {1, std::ssize(ids)})), 0, 0);
}

void PromptScorer::score(int64_t rows) {
  const Head head = dynamic_cast<const LanguageModel&>(model_.model()).head();
  const Tensor logs = log_softmax(head.logits(contiguous(slice(hidden_, 0, scored_, scored_ + rows))));
  scored_ += rows;
  const auto values = to(logs, kCpu).to_vector<float>();
  const auto width = static_cast<size_t>(logs.dim(1));
  std::vector<Continuation> best;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const auto own = std::span(values).subspan(row * width, width);
    TokenRecord record{.id = prompt_[records_.size()]};
    record.log_probability = own[static_cast<size_t>(record.id)];
    if (count_ > 0) top_values(own.first(static_cast<size_t>(model_.vocabulary.size)), count_, best);
    for (const Continuation& one : best) record.top.push_back({.id = one.id, .log_probability = one.value});
    records_.push_back(std::move(record));
  }
}

}  // namespace attend
