#include "attend/nn/cache.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/threads.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// A copy of x with space for `capacity` positions, of which the first `held` are copied.
Tensor grown(const Tensor& x, const Tensor& like, int64_t held, int64_t capacity) {
  const Tensor result = empty({like.dim(0), like.dim(1), capacity, like.dim(3)}, {like.dtype(), like.device()});
  if (x && held > 0) copy_values(slice(x, 2, 0, held), slice(result, 2, 0, held));
  return result;
}

void write(const Tensor& fresh, const Tensor& cache, const CacheStep& step) {
  if (step.is_even()) {
    copy_values(fresh, slice(cache, 2, step.held[0], step.held[0] + step.count));
    return;
  }
  for (size_t row = 0; row < step.held.size(); ++row) {
    const auto r = static_cast<int64_t>(row);
    copy_values(select(fresh, 0, r), slice(select(cache, 0, r), 1, step.held[row], step.held[row] + step.count));
  }
}

/// Whether each row either stays unchanged or is replaced by a row that stays unchanged, as in beam search. Rows can
/// then be copied in place.
bool can_copy_in_place(std::span<const int64_t> order) {
  return std::ranges::all_of(order, [&](int64_t from) { return order[static_cast<size_t>(from)] == from; });
}

}  // namespace

int64_t CacheStep::longest() const { return *std::ranges::max_element(held) + count; }

bool CacheStep::is_even() const {
  return std::ranges::all_of(held, [&](int64_t n) { return n == held[0]; });
}

Tensor CacheStep::lengths() const {
  std::vector<int64_t> result = held;
  for (int64_t& length : result) length += count;
  return tensor<int64_t>(result, {static_cast<int64_t>(result.size())});
}

Tensor CacheStep::positions() const {
  std::vector<int64_t> result;
  for (const int64_t start : held) {
    for (int64_t i = 0; i < count; ++i) result.push_back(start + i);
  }
  return tensor<int64_t>(result, {static_cast<int64_t>(held.size()), count});
}

KeyValues KeyValueCache::append(const KeyValues& fresh, const CacheStep& step) {
  const NoGrad scope;
  require<ShapeError>(!step.held.empty() && static_cast<int64_t>(step.held.size()) == fresh.keys.dim(0) &&
                          step.count == fresh.keys.dim(2),
                      "KeyValueCache: the step has ", step.held.size(), " rows of ", step.count,
                      " tokens, but the keys have shape ", fresh.keys.shape());
  require<ShapeError>(step.count == 1 || step.is_even(),
                      "KeyValueCache: rows of different lengths must get one token at a time, got ", step.count);
  const int64_t longest = step.longest(), held = longest - step.count;
  require<ShapeError>(held == 0 || (keys_ && keys_.dim(0) == fresh.keys.dim(0) && keys_.dim(2) >= held),
                      "KeyValueCache: the step expects ", held, " cached tokens that the cache does not have");
  if (!keys_ || keys_.dim(2) < longest || keys_.dim(0) != fresh.keys.dim(0)) {
    const int64_t capacity = std::max<int64_t>({longest, 2 * held, 16});
    keys_ = grown(keys_, fresh.keys, held, capacity);
    values_ = grown(values_, fresh.values, held, capacity);
  }
  write(fresh.keys, keys_, step);
  write(fresh.values, values_, step);
  return {slice(keys_, 2, 0, longest), slice(values_, 2, 0, longest)};
}

void KeyValueCache::move(const RowMoves& moves) {
  if (!keys_) return;
  const auto target = [&](const Tensor& x) {
    return moves.is_in_place ? x : empty({moves.rows, x.dim(1), x.dim(2), x.dim(3)}, {x.dtype(), x.device()});
  };
  const Tensor keys = target(keys_), values = target(values_);
  const auto copy_one = [&](int64_t index) {
    const NoGrad scope;
    const RowMoves::Copy& copy = moves.copies[static_cast<size_t>(index / 2)];
    const auto part = [&copy](const Tensor& x, int64_t row) {
      return slice(attend::select(x, 0, row), 1, copy.begin, copy.end);
    };
    const bool is_key = index % 2 == 0;
    copy_values(part(is_key ? keys_ : values_, copy.from), part(is_key ? keys : values, copy.to));
  };
  const int64_t copies = 2 * std::ssize(moves.copies);
  if (keys_.device() == kCpu) {
    parallel_for(copies, copy_one);
  } else {
    for (int64_t i = 0; i < copies; ++i) copy_one(i);
  }
  keys_ = keys;
  values_ = values;
}

void RowHistory::append(std::span<const int64_t> counts) {
  marks_.resize(counts.size());
  for (size_t row = 0; row < counts.size(); ++row) {
    for (int64_t i = 0; i < counts[row]; ++i) marks_[row].push_back(next_mark_++);
  }
}

RowMoves::Copy RowHistory::copy_of(int64_t from, int64_t to, bool is_whole) const {
  const std::vector<int64_t>& wanted = marks_[static_cast<size_t>(from)];
  RowMoves::Copy copy{.from = from, .to = to, .begin = 0, .end = std::ssize(wanted)};
  if (is_whole) return copy;
  const std::vector<int64_t>& own = marks_[static_cast<size_t>(to)];
  copy.begin = std::ranges::mismatch(wanted, own).in1 - wanted.begin();
  return copy;
}

RowMoves RowHistory::select(std::span<const int64_t> order) {
  if (marks_.empty()) return {.rows = std::ssize(order), .is_in_place = true};  // no tokens yet
  RowMoves moves{.rows = std::ssize(order), .is_in_place = order.size() == marks_.size() && can_copy_in_place(order)};
  for (int64_t to = 0; to < moves.rows; ++to) {
    const RowMoves::Copy copy = copy_of(order[static_cast<size_t>(to)], to, !moves.is_in_place);
    if (copy.begin < copy.end) moves.copies.push_back(copy);
  }
  std::vector<std::vector<int64_t>> marks;
  for (const int64_t from : order) marks.push_back(marks_[static_cast<size_t>(from)]);
  marks_ = std::move(marks);
  return moves;
}

void RowHistory::join(const RowHistory& other) {
  for (std::vector<int64_t> marks : other.marks_) {
    for (int64_t& mark : marks) mark += next_mark_;
    marks_.push_back(std::move(marks));
  }
  next_mark_ += other.next_mark_;
}

void KeyValueCache::join(const KeyValueCache& other) {
  require<ShapeError>(static_cast<bool>(keys_) == static_cast<bool>(other.keys_),
                      "KeyValueCache: a cache that holds nothing cannot join one that holds something");
  if (!keys_) return;
  keys_ = join_rows(keys_, other.keys_, 2);
  values_ = join_rows(values_, other.values_, 2);
}

std::vector<int64_t> repeated_rows(int64_t rows, int64_t times) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rows * times; ++i) order.push_back(i / times);
  return order;
}

Tensor select_rows(const Tensor& x, std::span<const int64_t> order) {
  const NoGrad scope;
  Shape shape = x.shape();
  shape[0] = static_cast<int64_t>(order.size());
  const Tensor result = empty(shape, {x.dtype(), x.device()});
  for (int64_t i = 0; i < shape[0]; ++i) {
    copy_values(select(x, 0, order[static_cast<size_t>(i)]), select(result, 0, i));
  }
  return result;
}

Tensor join_rows(const Tensor& a, const Tensor& b, int64_t axis) {
  const NoGrad scope;
  Shape shape = a.shape();
  shape[0] = a.dim(0) + b.dim(0);
  if (axis > 0) shape[axis] = std::max(a.dim(axis), b.dim(axis));
  const Tensor result = zeros(shape, {a.dtype(), a.device()});
  const auto place = [&](const Tensor& part, int64_t first) {
    const Tensor rows = slice(result, 0, first, first + part.dim(0));
    copy_values(part, axis > 0 ? slice(rows, axis, 0, part.dim(axis)) : rows);
  };
  place(a, 0);
  place(b, a.dim(0));
  return result;
}

}  // namespace attend
