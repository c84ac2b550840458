#pragma once

#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

// What a decoder keeps so that a new token costs one row of work: the keys and values of everything before it.
namespace attend {

/// Keys and values of one attention layer, [rows, key_heads, length, head_dim].
struct KeyValues {
  Tensor keys, values;
};

/// One step of generation, the same for every layer: rows hold `held` tokens each, and `count` more come. Rows may hold
/// different numbers as long as one token comes at a time, or nothing is held yet.
struct CacheStep {
  std::vector<int64_t> held;
  int64_t count = 1;
  Tensor bias{};  ///< added to the scores of every layer's attention to itself, [1 or rows, heads, count, longest()]

  int64_t longest() const;   ///< of the rows, with what comes
  bool is_even() const;      ///< all rows hold the same number
  Tensor lengths() const;    ///< i64 [rows]: held + count
  Tensor positions() const;  ///< i64 [rows, count]: where the new tokens stand
};

/// How the rows of all layers' caches move: positions [begin, end) of row `from` become those of row `to`.
struct RowMoves {
  struct Copy {
    int64_t from = 0, to = 0, begin = 0, end = 0;
  };
  int64_t rows = 0;
  bool is_in_place = false;  ///< rows without a copy stay; else all are copied to new memory
  std::vector<Copy> copies;
};

/// Where rows have the same past. Hypotheses of one beam differ in their last few tokens as a rule, so that a row which
/// goes on from another needs no more than those of its keys and values.
class RowHistory {
 public:
  /// Row i has read counts[i] more tokens.
  void append(std::span<const int64_t> counts);
  /// Row i becomes what row order[i] was: repeats, drops and moves rows.
  RowMoves select(std::span<const int64_t> order);
  /// Adds the rows of `other` behind its own.
  void join(const RowHistory& other);

 private:
  RowMoves::Copy copy_of(int64_t from, int64_t to, bool is_whole) const;

  std::vector<std::vector<int64_t>> marks_;  // of each row and position: equal where the same token was read by one row
  int64_t next_mark_ = 0;
};

/// A layer's cache, which grows as needed. Rows are sequences.
class KeyValueCache {
 public:
  /// Writes keys and values [rows, key_heads, step.count, head_dim] behind what each row holds; gives a view of all up
  /// to the longest row. Throws ShapeError where the step does not fit what is held.
  KeyValues append(const KeyValues& fresh, const CacheStep& step);
  void move(const RowMoves& moves);
  /// Adds the rows of `other` behind its own.
  void join(const KeyValueCache& other);

 private:
  Tensor keys_, values_;  // [rows, key_heads, capacity, head_dim]
};

/// The order in which each of `rows` rows stands `times` times, side by side.
std::vector<int64_t> repeated_rows(int64_t rows, int64_t times);

/// Rows order[0], order[1], … of x, copied. Not recorded.
Tensor select_rows(const Tensor& x, std::span<const int64_t> order);

/// The rows of a, then those of b, copied. Along `axis`, if it is not 0, the shorter of the two is padded with zeros. Not
/// recorded.
Tensor join_rows(const Tensor& a, const Tensor& b, int64_t axis = 0);

}  // namespace attend
