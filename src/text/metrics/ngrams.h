#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attend {

/// Numbers distinct keys 0, 1, 2, … in the order of their first appearance. A hash table that is cleared at no cost.
class Numbering {
 public:
  /// Makes room for at most `keys` distinct keys.
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

/// The n-grams of several sequences, one order at a time. Equal n-grams have equal numbers, in whichever sequence they
/// occur. The number of an n-gram is determined by the number of its first n−1 symbols and by its last symbol, so that
/// different n-grams never share a number.
class NGrams {
 public:
  /// Starts at order 1, where each n-gram is one symbol.
  void start(std::vector<std::vector<uint32_t>> sequences);
  void next_order();

  /// The numbers of a sequence's n-grams from left to right. All are below count().
  std::span<const uint32_t> of(size_t sequence) const;
  size_t sequences() const { return symbols_.size(); }
  uint32_t count() const { return numbering_.count(); }

 private:
  Numbering numbering_;
  std::vector<std::vector<uint32_t>> symbols_, grams_;
  size_t order_ = 1;
};

}  // namespace attend
