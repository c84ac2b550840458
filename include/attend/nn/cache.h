#pragma once

#include <optional>
#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

// The key-value cache of a decoder. With the keys and values of all earlier tokens cached, a new token costs one row of
// work.
namespace attend {

/// Keys and values of one attention layer, each [rows, key_heads, length, head_dim].
struct KeyValues {
  Tensor keys, values;
};

/// The type of cached keys and values that fits the products with this weight: bf16 if they round to bf16, or more, as
/// those with int8 weights do, else f32.
DType default_cache_type(const Tensor& weight);

/// One step of generation, the same for every layer: row i has held[i] tokens in the cache, and each row gets `count`
/// new tokens. Rows may have different numbers of cached tokens only if `count` is 1.
struct CacheStep {
  std::vector<int64_t> held;
  int64_t count = 1;
  Tensor bias{};  ///< added to every layer's self-attention scores, [1 or rows, heads, count, longest()]; may be empty
  std::optional<DType> requested_type{};  ///< see choose_cache_type()
  DType cache_type = DType::f32;          ///< of caches on a GPU: f32 or bf16; the first step decides
  /// Of a step of one token per row on a GPU: i64 [4, rows] on the device, the ids, the positions, the lengths and the
  /// cache rows of the new tokens. Then no kernel of the step depends on the numbers above. Empty otherwise.
  Tensor numbers{};

  /// Chooses cache_type: requested_type, or default_cache_type() for the weight of the layers' keys.
  void choose_cache_type(const Tensor& key_weight);
  /// Fills `numbers` for new tokens `ids`. `capacity` is that of every layer's cache.
  void set_numbers(std::span<const int64_t> ids, int64_t capacity, Device device);
  Tensor number_row(int64_t which) const;  ///< i64 [rows]
  Tensor device_ids() const { return number_row(0); }
  Tensor device_positions() const { return number_row(1); }
  Tensor device_lengths() const { return number_row(2); }
  Tensor device_places() const { return number_row(3); }

  int64_t longest() const;   ///< length of the longest row, new tokens included
  bool is_even() const;      ///< whether all rows have the same number of cached tokens
  Tensor lengths() const;    ///< i64 [rows]: held + count
  Tensor positions() const;  ///< i64 [rows, count]: positions of the new tokens
};

/// Copies between the rows of every layer's cache: positions [begin, end) of row `from` are copied to row `to`.
struct RowMoves {
  struct Copy {
    int64_t from = 0, to = 0, begin = 0, end = 0;
  };
  int64_t rows = 0;
  int64_t longest() const;  ///< number of positions of the longest copy
  /// For caches of `capacity` positions per row, i64 [copies, 3]: first cache row, first target row, number of rows.
  Tensor runs(int64_t capacity) const;

  bool is_in_place = false;  ///< true: rows without a copy are unchanged; false: all rows are copied to new memory
  std::vector<Copy> copies;
  mutable int64_t known_capacity = 0;  ///< runs() of this capacity is known, and shared by the caches of all layers
  mutable Tensor known_runs{};
};

/// Tracks which rows have a common prefix. Hypotheses of one beam usually differ only in their last few tokens, so a
/// row that continues another row needs only those keys and values copied.
class RowHistory {
 public:
  /// Records that row i has read counts[i] more tokens.
  void append(std::span<const int64_t> counts);
  /// Replaces row i by the former row order[i], and returns the copies that the caches need. Rows may be repeated,
  /// moved and dropped.
  RowMoves select(std::span<const int64_t> order);
  /// Appends the rows of `other`.
  void join(const RowHistory& other);

 private:
  RowMoves::Copy copy_of(int64_t from, int64_t to, bool is_whole) const;

  std::vector<std::vector<int64_t>> marks_;  // [row][position]: equal marks come from the same read of the same token
  int64_t next_mark_ = 0;
};

/// The cache of one layer. It grows as needed. Each row is a sequence. On a GPU the capacity is a power of two, and the
/// vectors of all heads at one position lie together: position p of row r is cache row r · capacity + p.
class KeyValueCache {
 public:
  /// Appends keys and values [rows, key_heads, step.count, head_dim] to each row. Returns a view of all cached
  /// positions up to the longest row. Throws ShapeError if the step does not match the cached rows.
  KeyValues append(const KeyValues& fresh, const CacheStep& step);
  /// Performs the copies that RowHistory::select returned.
  void move(const RowMoves& moves);
  /// Appends the rows of `other`.
  void join(const KeyValueCache& other);

  /// Makes room for `positions` positions in each row. Only for a cache that holds something.
  void reserve(int64_t positions);
  int64_t capacity() const { return keys_ ? keys_.dim(2) : 0; }
  KeyValues all() const { return {keys_, values_}; }  ///< up to the capacity
  KeyValues cache_rows() const;                       ///< on a GPU: [rows · capacity, key_heads · head_dim] each

 private:
  Tensor keys_, values_;  // [rows, key_heads, capacity, head_dim]
};

/// The row order 0, …, 0, 1, …, 1, … in which each of `rows` rows appears `times` times in succession.
std::vector<int64_t> repeated_rows(int64_t rows, int64_t times);

/// A copy of rows order[0], order[1], … of x. Not recorded.
Tensor select_rows(const Tensor& x, std::span<const int64_t> order);

/// A copy of the rows of a followed by the rows of b. If `axis` is not 0, the shorter tensor is padded with zeros along
/// `axis`. Not recorded.
Tensor join_rows(const Tensor& a, const Tensor& b, int64_t axis = 0);

}  // namespace attend
