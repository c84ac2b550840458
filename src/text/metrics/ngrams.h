#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attend {

/// Numbers distinct keys 0, 1, 2, … in the order they first come: a hash table that is emptied at no cost.
class Numbering {
 public:
  /// For at most `keys` distinct keys.
  void clear(size_t keys);
  uint32_t number(uint64_t key);
  uint32_t count() const { return count_; }

 private:
  struct Cell {
    uint64_t key = 0;
    uint32_t number = 0, round = 0;
  };
  std::vector<Cell> cells_;
  uint32_t round_ = 0, count_ = 0;
  int shift_ = 64;
};

/// The n-grams of some sequences, order after order. Equal n-grams have equal numbers, whichever sequence they are in:
/// an n-gram is numbered by the number of its first n−1 symbols and its last symbol, so no two can be confused.
class NGrams {
 public:
  /// Starts at order 1, where an n-gram is a symbol.
  void start(std::vector<std::vector<uint32_t>> sequences);
  void next_order();

  /// The numbers, below count(), of a sequence's n-grams from left to right.
  std::span<const uint32_t> of(size_t sequence) const;
  size_t sequences() const { return symbols_.size(); }
  uint32_t count() const { return numbering_.count(); }

 private:
  Numbering numbering_;
  std::vector<std::vector<uint32_t>> symbols_, grams_;
  size_t order_ = 1;
};

}  // namespace attend
