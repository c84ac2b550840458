#pragma once

#include <limits>
#include <vector>

#include "text/tokenizers/subword_model.h"
#include "text/tokenizers/trie.h"

namespace attend::text {

/// Unigram segmentation (Kudo 2018): the segmentation with the largest sum of token log-probabilities, found by the
/// Viterbi algorithm. Score is the type of the sums: float in SentencePiece, double in Hugging Face's tokenizers. The
/// type affects how ties are broken.
template <class Score>
class UnigramLattice {
 public:
  void add(std::string_view token, int32_t id, Score score);
  /// Adds a token that is preferred to any segmentation of its text.
  void add_preferred(std::string_view token, int32_t id);

  struct Part {
    std::string_view text;
    int32_t id = kNone;  ///< kNone: one or more adjacent characters that no token covers
  };
  /// The best segmentation. Of equal ones, the one found first wins; shorter tokens are tried first.
  std::vector<Part> best(std::string_view text) const;

 private:
  Score score_of(int32_t id, size_t length) const;
  void set(std::string_view token, int32_t id, Score score);

  Trie trie_;
  std::vector<Score> scores_;  // by id; NaN for preferred tokens
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
