#include "generate/step_logits.h"

#include <algorithm>

#include "attend/nn/cache.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "ops/generation.h"

namespace attend {
namespace {

/// The number of best tokens that all writers need; 0 if one needs all logits.
int64_t best_needed(std::span<const Slot* const> slots) {
  int64_t most = 0;
  for (const Slot* slot : slots) {
    const int64_t own = slot->writer->best_needed();
    const bool has_words = slot->sequence->vocabulary.size == slots[0]->sequence->vocabulary.size;
    const int64_t shown = slot->sequence->candidates;
    if (own == 0 || shown > kMostBest || slot->sequence->is_traced || !has_words) return 0;
    most = std::max({most, own, shown});
  }
  return most;
}

}  // namespace

void StepLogits::set(const Tensor& values, std::span<const Slot* const> slots, bool use_best) {
  const Tensor narrow = to(values, DType::f32);
  best_count_ = use_best && values.device() != kCpu ? best_needed(slots) : 0;
  if (best_count_ > 0) {
    terms_ = to(best_logits(narrow, slots[0]->sequence->vocabulary.size, best_count_), kCpu);
    logits_ = {};
    return;
  }
  terms_ = to(log_softmax_terms(narrow), kCpu);
  logits_ = to(narrow, kCpu);
}

StepRows StepLogits::rows(int64_t first, int64_t count) const {
  const auto begin = static_cast<size_t>(first), number = static_cast<size_t>(count);
  const auto terms_stride = static_cast<size_t>(terms_.dim(1));
  StepRows result{.terms = terms_.data<const float>().subspan(begin * terms_stride, number * terms_stride),
                  .term_stride = terms_stride,
                  .best_count = best_count_};
  if (best_count_ > 0) return result;
  result.stride = static_cast<size_t>(logits_.dim(1));
  result.logits = logits_.data<const float>().subspan(begin * result.stride, number * result.stride);
  return result;
}

StepLogits StepLogits::repeated(int64_t row, int64_t count) const {
  const std::vector<int64_t> order(static_cast<size_t>(count), row);
  StepLogits result;
  result.best_count_ = best_count_;
  result.terms_ = select_rows(terms_, order);
  if (logits_) result.logits_ = select_rows(logits_, order);
  return result;
}

}  // namespace attend
