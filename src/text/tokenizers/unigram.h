#pragma once

#include <limits>
#include <vector>

#include "text/tokenizers/subword_model.h"
#include "text/tokenizers/trie.h"

namespace attend::text {

/// Kudo 2018: the segmentation whose tokens' log-probabilities have the largest sum, found by Viterbi's algorithm. Sums
/// are kept as Score: SentencePiece's are float, those of Hugging Face's tokenizers double, and ties hang on it.
template <class Score>
class UnigramLattice {
 public:
  void add(std::string_view token, int32_t id, Score score);
  /// A token that wins over any way to cut it up.
  void add_preferred(std::string_view token, int32_t id);

  struct Part {
    std::string_view text;
    int32_t id = kNone;  ///< kNone: one or more adjacent characters that no token covers
  };
  /// Of equals, the segmentation found first wins, shorter tokens being tried first.
  std::vector<Part> best(std::string_view text) const;

 private:
  Score score_of(int32_t id, size_t length) const;
  void set(std::string_view token, int32_t id, Score score);

  Trie trie_;
  std::vector<Score> scores_;  // by id; NaN for preferred ones
  Score smallest_ = std::numeric_limits<Score>::infinity(), largest_ = std::numeric_limits<Score>::min();
};

/// The Unigram model of tokenizer.json.
class Unigram final : public SubwordModel {
 public:
  explicit Unigram(const Json& json);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  UnigramLattice<double> lattice_;
  std::vector<int32_t> byte_ids_;  // empty: no fallback to bytes
};

}  // namespace attend::text
