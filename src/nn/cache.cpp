#include "attend/nn/cache.h"

#include <algorithm>
#include <bit>

#include "attend/autograd/autograd.h"
#include "attend/base/threads.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "ops/generation.h"

namespace attend {
namespace {

/// An empty cache [rows, heads, capacity, dim]. On a GPU the heads of a position lie together.
Tensor new_cache(const Shape& shape, const TensorOptions& options) {
  if (options.device == kCpu) return empty(shape, options);
  return transpose(empty({shape[0], shape[2], shape[1], shape[3]}, options), 1, 2);
}

/// The capacity for `longest` positions, of which `held` are cached. On a GPU few classes, so that the shapes of steps
/// repeat; a small batch starts with the length of most texts.
int64_t capacity_for(int64_t longest, int64_t held, int64_t rows, Device device) {
  if (device == kCpu) return std::max<int64_t>({longest, 2 * held, 16});
  const int64_t least = rows <= 64 ? 256 : 64;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(longest, least))));
}

/// A copy of x with space for `capacity` positions, of which the first `held` are copied.
Tensor grown(const Tensor& x, const Tensor& like, int64_t held, int64_t capacity, DType dtype) {
  const Tensor result = new_cache({like.dim(0), like.dim(1), capacity, like.dim(3)}, {dtype, like.device()});
  if (x && held > 0) copy_values(slice(x, 2, 0, held), slice(result, 2, 0, held));
  return result;
}

/// A cache on a GPU as [rows · capacity, heads · dim].
Tensor as_cache_rows(const Tensor& x) {
  return x.as_strided({x.dim(0) * x.dim(2), x.dim(1) * x.dim(3)}, {x.dim(1) * x.dim(3), 1}, x.offset());
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

DType default_cache_type(const Tensor& weight) {
  return current_precision() == Precision::bf16 || weight.dtype() == DType::i8 ? DType::bf16 : DType::f32;
}

void CacheStep::choose_cache_type(const Tensor& key_weight) {
  cache_type = requested_type.value_or(default_cache_type(key_weight));
}

void CacheStep::set_numbers(std::span<const int64_t> ids, int64_t capacity, Device device) {
  const size_t rows = held.size();
  require<ShapeError>(count == 1 && ids.size() == rows, "CacheStep: ", rows, " rows must get one token each, got ",
                      ids.size());
  std::vector<int64_t> all(ids.begin(), ids.end());
  all.insert(all.end(), held.begin(), held.end());
  for (const int64_t n : held) all.push_back(n + 1);
  for (size_t row = 0; row < rows; ++row) all.push_back(static_cast<int64_t>(row) * capacity + held[row]);
  if (!numbers || numbers.dim(1) != static_cast<int64_t>(rows)) {
    numbers = empty({4, static_cast<int64_t>(rows)}, {DType::i64, device});
  }
  upload_numbers(all, numbers);
}

Tensor CacheStep::number_row(int64_t which) const {
  const int64_t rows = numbers.dim(1);
  return numbers.as_strided({rows}, {1}, numbers.offset() + which * rows);
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
    const int64_t capacity = capacity_for(longest, held, fresh.keys.dim(0), fresh.keys.device());
    const bool is_narrow = fresh.keys.device() != kCpu && fresh.keys.dtype() == DType::f32;
    const DType dtype = keys_ ? keys_.dtype() : is_narrow ? step.cache_type : fresh.keys.dtype();
    keys_ = grown(keys_, fresh.keys, held, capacity, dtype);
    values_ = grown(values_, fresh.values, held, capacity, dtype);
  }
  write(fresh.keys, keys_, step);
  write(fresh.values, values_, step);
  return {slice(keys_, 2, 0, longest), slice(values_, 2, 0, longest)};
}

void KeyValueCache::move(const RowMoves& moves) {
  if (!keys_) return;
  const NoGrad scope;
  const auto target = [&](const Tensor& x) {
    return moves.is_in_place ? x : new_cache({moves.rows, x.dim(1), x.dim(2), x.dim(3)}, {x.dtype(), x.device()});
  };
  const Tensor keys = target(keys_), values = target(values_);
  if (keys_.device() == kCpu) {
    parallel_for(2 * std::ssize(moves.copies), [&](int64_t index) {
      const NoGrad own_scope;
      const RowMoves::Copy& copy = moves.copies[static_cast<size_t>(index / 2)];
      const auto part = [&copy](const Tensor& x, int64_t row) {
        return slice(attend::select(x, 0, row), 1, copy.begin, copy.end);
      };
      const bool is_key = index % 2 == 0;
      copy_values(part(is_key ? keys_ : values_, copy.from), part(is_key ? keys : values, copy.to));
    });
  } else if (!moves.copies.empty()) {
    const Tensor runs = on_device(moves.runs(capacity()), keys.device());
    copy_runs(as_cache_rows(keys_), runs, moves.longest(), as_cache_rows(keys));
    copy_runs(as_cache_rows(values_), runs, moves.longest(), as_cache_rows(values));
  }
  keys_ = keys;
  values_ = values;
}

void KeyValueCache::reserve(int64_t positions) {
  const NoGrad scope;
  if (capacity() >= positions) return;
  const int64_t held = capacity(), wanted = capacity_for(positions, held, keys_.dim(0), keys_.device());
  keys_ = grown(keys_, keys_, held, wanted, keys_.dtype());
  values_ = grown(values_, values_, held, wanted, keys_.dtype());
}

KeyValues KeyValueCache::cache_rows() const { return {as_cache_rows(keys_), as_cache_rows(values_)}; }

int64_t RowMoves::longest() const {
  int64_t most = 0;
  for (const Copy& copy : copies) most = std::max(most, copy.end - copy.begin);
  return most;
}

Tensor RowMoves::runs(int64_t capacity) const {
  if (known_capacity == capacity) return known_runs;
  std::vector<int64_t> numbers;
  for (const Copy& copy : copies) {
    numbers.insert(numbers.end(),
                   {copy.from * capacity + copy.begin, copy.to * capacity + copy.begin, copy.end - copy.begin});
  }
  known_capacity = capacity;
  known_runs = tensor<int64_t>(numbers, {std::ssize(copies), 3});
  return known_runs;
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
  if (keys_.device() == kCpu) {
    keys_ = join_rows(keys_, other.keys_, 2);
    values_ = join_rows(values_, other.values_, 2);
    return;
  }
  const auto joined = [](const Tensor& a, const Tensor& b) {
    return transpose(join_rows(transpose(a, 1, 2), transpose(b, 1, 2), 1), 1, 2);
  };
  const NoGrad scope;
  keys_ = joined(keys_, other.keys_);
  values_ = joined(values_, other.values_);
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
  if (x.device() != kCpu && x.dtype() == DType::f32 && x.rank() > 1) {  // in one kernel
    const Tensor indices = tensor<int64_t>(std::vector<int64_t>(order.begin(), order.end()), {shape[0]});
    return reshape(take_rows(reshape(x, {x.dim(0), -1}), indices), shape);
  }
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
