#include "text/metrics/ngrams.h"

#include <algorithm>
#include <bit>

namespace attend {

void Numbering::clear(size_t keys) {
  const size_t wanted = std::bit_ceil(std::max<size_t>(2 * keys, 16));
  if (wanted > cells_.size()) {
    cells_.assign(wanted, {});
    round_ = 0;
    shift_ = 64 - std::countr_zero(wanted);
  }
  if (++round_ == 0) {  // after 2^32 rounds, old cells could be mistaken for current ones
    std::ranges::fill(cells_, Cell{});
    round_ = 1;
  }
  count_ = 0;
}

uint32_t Numbering::number(uint64_t key) {
  size_t at = (key * 0x9E3779B97F4A7C15u) >> shift_;  // Fibonacci hashing: the upper bits are well mixed
  for (;; at = (at + 1) & (cells_.size() - 1)) {
    Cell& cell = cells_[at];
    if (cell.round != round_) {
      cell = {key, count_++, round_};
      return cell.number;
    }
    if (cell.key == key) return cell.number;
  }
}

void NGrams::start(std::vector<std::vector<uint32_t>> sequences) {
  symbols_ = std::move(sequences);
  grams_ = symbols_;
  order_ = 1;
  size_t keys = 0;
  for (const auto& sequence : symbols_) keys += sequence.size();
  numbering_.clear(keys);
  for (auto& sequence : grams_) {
    for (uint32_t& gram : sequence) gram = numbering_.number(gram);
  }
}

void NGrams::next_order() {
  ++order_;
  size_t keys = 0;
  for (const auto& sequence : grams_) keys += sequence.size();
  numbering_.clear(keys);
  for (size_t s = 0; s < grams_.size(); ++s) {
    auto& grams = grams_[s];
    if (!grams.empty()) grams.pop_back();
    for (size_t i = 0; i < grams.size(); ++i) {
      grams[i] = numbering_.number(uint64_t{grams[i]} << 32 | symbols_[s][i + order_ - 1]);
    }
  }
}

std::span<const uint32_t> NGrams::of(size_t sequence) const { return grams_[sequence]; }

}  // namespace attend
