#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// The distinct words of a corpus with how often each was seen, in the order of their first appearance.
class WordCounts {
 public:
  void add(std::string_view word, int64_t count = 1);
  size_t size() const { return words_.size(); }
  const std::string& word(size_t i) const { return words_[i]; }
  int64_t count(size_t i) const { return counts_[i]; }
  /// Indices from the most frequent to the rarest, equals in the order of their bytes.
  std::vector<size_t> by_frequency() const;

 private:
  StringTable indices_;
  std::vector<std::string> words_;
  std::vector<int64_t> counts_;
};

using Merges = std::vector<std::pair<std::string, std::string>>;  // in the order learnt

/// What to learn merges from, and how far to go.
struct MergeTask {
  std::vector<std::vector<int32_t>> words;  ///< ids of the single characters (or bytes)
  std::vector<int64_t> counts;              ///< of each word
  int64_t vocabulary = 0;                   ///< stop at this many tokens
  int64_t min_count = 2;                    ///< or when no pair is seen this often
  /// The token two tokens become.
  std::function<std::string(const std::string&, const std::string&)> join;
};

/// Learns pairs to join (Sennrich et al. 2016, algorithm 1), the most frequent first and, of equals, the one of the
/// smallest ids; adds each result to the vocabulary. Counts are kept up to date pair by pair: the work goes with the
/// places that change, not with the corpus.
Merges learn_merges(MergeTask task, Vocabulary& vocabulary);

}  // namespace attend::text
