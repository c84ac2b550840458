#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// The distinct words of a corpus and their counts, in the order of first appearance.
class WordCounts {
 public:
  void add(std::string_view word, int64_t count = 1);
  size_t size() const { return words_.size(); }
  const std::string& word(size_t i) const { return words_[i]; }
  int64_t count(size_t i) const { return counts_[i]; }
  /// Indices from the most to the least frequent word. Words with equal counts are in byte order.
  std::vector<size_t> by_frequency() const;

 private:
  StringTable indices_;
  std::vector<std::string> words_;
  std::vector<int64_t> counts_;
};

using Merges = std::vector<std::pair<std::string, std::string>>;  // in the order learnt

/// The input of learn_merges() and when to stop.
struct MergeTask {
  std::vector<std::vector<int32_t>> words;  ///< ids of each word's characters (or bytes)
  std::vector<int64_t> counts;              ///< frequency of each word
  int64_t vocabulary = 0;                   ///< stop at this many tokens
  int64_t min_count = 2;                    ///< stop when no pair is at least this frequent
  /// Returns the token that two tokens are joined to.
  std::function<std::string(const std::string&, const std::string&)> join;
};

/// Learns merges (Sennrich et al. 2016, algorithm 1): the most frequent pair first and, of equally frequent pairs, the
/// one with the smallest ids. Adds each joined token to the vocabulary. Counts are updated pair by pair: the work is
/// proportional to the occurrences that change, not to the size of the corpus.
Merges learn_merges(MergeTask task, Vocabulary& vocabulary);

}  // namespace attend::text
