#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/kernels.h"

// One head of one sequence of an attention call as plain pointers, and the keys that each query sees.
namespace attend::cpu {

/// Keys [begin, end).
struct KeyRange {
  int64_t begin = 0, end = 0;
};

/// Keys in a block. The softmax of a query runs over blocks that begin at multiples of this, wherever the visible keys
/// begin, so that its sums have one order for any neighbours and any number of queries at a time. The values of a block
/// (64 × 64 floats), the scores and a panel's output fit into L1 together.
inline constexpr int64_t kKeyBlock = 64;
/// The same for parts of long sequences, which threads may share. The results of the parts are joined in order.
inline constexpr int64_t kKeyChunk = 2048;

inline int64_t block_begin(int64_t key) { return key / kKeyBlock * kKeyBlock; }

template <class T>
struct HeadSlice {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_row = 0, k_row = 0, v_row = 0;  ///< strides from one position to the next
  int64_t k_feature = 1;                    ///< stride from one feature of a key to the next
  int64_t first_held = 0;                   ///< the key at which k and v begin
  const void* const* pages = nullptr;       ///< the keys and values are in pages; k and v are null
  int64_t k_page = 0, v_page = 0;           ///< place of this head's keys and values in a page
  int64_t queries = 0, keys = 0, dim = 0, value_dim = 0;
  const uint8_t* mask = nullptr;
  int64_t mask_row = 0, mask_key = 0;
  const T* bias = nullptr;
  int64_t bias_row = 0, bias_key = 0;
  T slope = 0;  ///< of ALiBi; 0: no ALiBi
  T scale = 1, softcap = 0;
  int64_t shift = 0;  ///< query i is at position i + shift
  bool causal = false;
  int64_t window = 0;
  int64_t first_query = 0, first_key = 0;  ///< where this sequence begins on the query and key axes
  // Dropout: weight (i, j) is element j mod 8 of the block of counter (first_row + i) · row_groups + j / 8.
  double dropout = 0;
  RandomStream random;
  uint64_t first_row = 0, row_groups = 0;

  /// `Stored`: the type of keys and values in pages.
  template <class Stored = T>
  const Stored* key_at(int64_t key) const {
    if (pages) return static_cast<const Stored*>(pages[key / kPageKeys]) + k_page + key % kPageKeys * k_row;
    return without_pages<Stored>(k) + (key - first_held) * k_row;
  }
  template <class Stored = T>
  const Stored* value_row(int64_t key) const {
    if (pages) return static_cast<const Stored*>(pages[key / kPageKeys]) + v_page + key % kPageKeys * v_row;
    return without_pages<Stored>(v) + (key - first_held) * v_row;
  }
  /// Keys or values outside of pages have type T.
  template <class Stored>
  static const Stored* without_pages(const T* x) {
    if constexpr (std::is_same_v<Stored, T>) return x;
    return nullptr;
  }
  /// The end of the keys from `begin` to `end` that are evenly spaced in memory.
  int64_t run_end(int64_t begin, int64_t end) const {
    return pages ? std::min((begin / kPageKeys + 1) * kPageKeys, end) : end;
  }
  /// Calls run(part) for the parts of a range of keys that are evenly spaced in memory, in order.
  template <class F>
  void for_runs(KeyRange range, F&& run) const {
    for (int64_t begin = range.begin, end; begin < range.end; begin = end) {
      end = run_end(begin, range.end);
      run(KeyRange{begin, end});
    }
  }

  /// The keys that query i may see by position; a mask may hide more. Both ends increase with i.
  KeyRange visible(int64_t i) const {
    const int64_t position = i + shift;
    KeyRange range{0, keys};
    if (window > 0) range.begin = position - window + 1;
    if (causal)
      range.end = position + 1;
    else if (window > 0)
      range.end = position + window;
    range.begin = std::clamp<int64_t>(range.begin, 0, keys);
    range.end = std::clamp<int64_t>(range.end, range.begin, keys);
    return range;
  }
  /// Keys that any query, or every query, of [begin, end) sees.
  KeyRange visible_to_any(int64_t begin, int64_t end) const { return {visible(begin).begin, visible(end - 1).end}; }
  KeyRange visible_to_all(int64_t begin, int64_t end) const { return {visible(end - 1).begin, visible(begin).end}; }
  /// Queries [begin, end) that see any key of [keys_begin, keys_end): the inverse of `visible`.
  KeyRange queries_seeing(int64_t keys_begin, int64_t keys_end) const {
    int64_t begin = 0, end = queries;
    if (causal)
      begin = keys_begin - shift;
    else if (window > 0)
      begin = keys_begin - shift - window + 1;
    if (window > 0) end = keys_end - 1 - shift + window;
    begin = std::clamp<int64_t>(begin, 0, queries);
    return {begin, std::clamp<int64_t>(end, begin, queries)};
  }
  /// True if a weight can be 0 because its key is hidden. Values of hidden keys may be NaN and must then be skipped.
  bool may_hide_keys() const { return causal || window > 0 || mask != nullptr || bias != nullptr; }
};

/// One sequence: a batch entry, or a part of a packed batch.
struct SequenceSpan {
  int64_t batch = 0;
  int64_t q_begin = 0, q_end = 0, k_begin = 0, k_end = 0;
  int64_t index = 0;  ///< of the sequence
  int64_t queries() const { return q_end - q_begin; }
};

inline std::vector<SequenceSpan> sequences_of(const AttentionProblem& problem) {
  std::vector<SequenceSpan> spans;
  const auto* lengths = static_cast<const int64_t*>(problem.lengths.data);
  if (problem.pages) {
    const auto* q = static_cast<const int64_t*>(problem.q_offsets.data);
    for (int64_t s = 0; s + 1 < problem.q_offsets.shape[0]; ++s) spans.push_back({0, q[s], q[s + 1], 0, lengths[s], s});
    return spans;
  }
  if (problem.q_offsets) {
    const auto* q = static_cast<const int64_t*>(problem.q_offsets.data);
    const auto* k = static_cast<const int64_t*>(problem.k_offsets.data);
    for (int64_t s = 0; s + 1 < problem.q_offsets.shape[0]; ++s)
      spans.push_back({0, q[s], q[s + 1], k[s], k[s + 1], s});
    return spans;
  }
  for (int64_t b = 0; b < problem.q.shape[0]; ++b) {
    spans.push_back({b, 0, problem.q.shape[2], 0, lengths ? lengths[b] : problem.k.shape[2], b});
  }
  return spans;
}

/// The forward pass of sequences with a few queries in f32, limited by the time to read k and v once.
void attention_decode(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse);

/// Address of element [b, h, i, j]. Axes of size 1 that broadcast have stride 0.
template <class T>
const T* element(const ConstView& view, int64_t b, int64_t h, int64_t i = 0, int64_t j = 0) {
  return static_cast<const T*>(view.data) + b * view.strides[0] + h * view.strides[1] + i * view.strides[2] +
         j * view.strides[3];
}

template <class T>
HeadSlice<T> slice_of(const AttentionProblem& problem, const SequenceSpan& span, int64_t head) {
  const int64_t kv_head = head / (problem.q.shape[1] / problem.k.shape[1]);
  HeadSlice<T> slice;
  slice.q = element<T>(problem.q, span.batch, head, span.q_begin);
  slice.q_row = problem.q.strides[2];
  if (problem.pages) {
    slice.pages = problem.pages[span.index];
    slice.k_row = 1;
    slice.k_feature = kPageKeys;
    slice.v_row = problem.v.shape[3];
    slice.k_page = kv_head * kPageKeys * problem.k.shape[3];
    slice.v_page = kPageKeys * (problem.k.shape[1] * problem.k.shape[3] + kv_head * slice.v_row);
  } else {
    slice.k = element<T>(problem.k, span.batch, kv_head, span.k_begin);
    slice.v = problem.v ? element<T>(problem.v, span.batch, kv_head, span.k_begin) : nullptr;
    slice.k_row = problem.k.strides[2];
    slice.v_row = problem.v ? problem.v.strides[2] : 0;
  }
  slice.queries = span.q_end - span.q_begin;
  slice.keys = span.k_end - span.k_begin;
  slice.dim = problem.q.shape[3];
  slice.value_dim = problem.v || problem.pages ? problem.v.shape[3] : 0;
  if (problem.mask) {
    slice.mask = element<uint8_t>(problem.mask, span.batch, head, span.q_begin, span.k_begin);
    slice.mask_row = problem.mask.strides[2];
    slice.mask_key = problem.mask.strides[3];
  }
  if (problem.bias) {
    slice.bias = element<T>(problem.bias, span.batch, head, span.q_begin, span.k_begin);
    slice.bias_row = problem.bias.strides[2];
    slice.bias_key = problem.bias.strides[3];
  }
  if (problem.alibi) slice.slope = static_cast<const T*>(problem.alibi.data)[head * problem.alibi.strides[0]];
  slice.scale = static_cast<T>(problem.scale);
  slice.softcap = static_cast<T>(problem.softcap);
  slice.shift = problem.bottom_right ? slice.keys - slice.queries : 0;
  slice.causal = problem.causal;
  slice.window = problem.window;
  slice.first_query = span.q_begin;
  slice.first_key = span.k_begin;
  slice.dropout = problem.dropout;
  slice.random = problem.random.settled();
  slice.first_row = static_cast<uint64_t>((span.batch * problem.q.shape[1] + head) * problem.q.shape[2] + span.q_begin);
  slice.row_groups = static_cast<uint64_t>((problem.k.shape[2] + kDropGroup - 1) / kDropGroup);
  return slice;
}

}  // namespace attend::cpu
