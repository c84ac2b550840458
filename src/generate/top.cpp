#include "generate/top.h"

#include <algorithm>
#include <limits>

namespace attend {
namespace {

constexpr size_t kBlock = 32;  // values compared at once with the worst value kept

bool is_better(const Continuation& a, const Continuation& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/// False if no value of a block exceeds the bound, so that the block can be skipped. Compiles to a few vector
/// comparisons.
bool any_above(const float* values, float bound) {
  int above = 0;
  for (size_t i = 0; i < kBlock; ++i) above |= values[i] > bound ? 1 : 0;
  return above != 0;
}

/// A heap of the best values so far, the worst of them at the front.
class Best {
 public:
  Best(std::vector<Continuation>& heap, size_t count) : heap_(heap), count_(count) { heap_.clear(); }

  void offer(int32_t id, float value) {
    if (heap_.size() < count_) {
      if (!(value >= -std::numeric_limits<float>::infinity())) return;  // NaN
      heap_.push_back({id, value});
      std::ranges::push_heap(heap_, is_better);
    } else if (value > heap_.front().value) {  // later ids lose a tie
      std::ranges::pop_heap(heap_, is_better);
      heap_.back() = {id, value};
      std::ranges::push_heap(heap_, is_better);
    }
  }
  bool is_full() const { return heap_.size() == count_; }
  float worst() const { return heap_.front().value; }

 private:
  std::vector<Continuation>& heap_;
  size_t count_;
};

}  // namespace

void top_values(std::span<const float> values, int64_t count, std::vector<Continuation>& result) {
  result.clear();
  if (count <= 0 || values.empty()) return;
  Best best(result, static_cast<size_t>(count));
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    if (end - begin == kBlock && best.is_full() && !any_above(&values[begin], best.worst())) continue;
    for (size_t i = begin; i < end; ++i) best.offer(static_cast<int32_t>(i), values[i]);
  }
  std::ranges::sort(result, is_better);
}

void top_allowed(std::span<const float> values, int64_t count, const Vocabulary& vocabulary,
                 std::vector<Continuation>& result) {
  top_values(values, count + std::ssize(vocabulary.banned), result);
  std::erase_if(result, [&](const Continuation& c) { return vocabulary.is_banned(c.id); });
  if (std::ssize(result) > count) result.resize(static_cast<size_t>(count));
}

}  // namespace attend
