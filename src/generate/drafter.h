#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/generate/vocabulary.h"
#include "generate/step_cost.h"

namespace attend {

/// The guessed continuation of a text.
struct Draft {
  std::vector<int32_t> ids;
  std::vector<double> chances;  ///< probability that this token and all before it are right; descending
};

/// Guesses how a text continues: as it did after an earlier occurrence of its last tokens. Every token of the text
/// shows whether the guess for it was right, drafted or not, so that chances follow the text at no cost.
class Drafter {
 public:
  /// `before`: the beginning of the text, such as a prompt.
  explicit Drafter(std::span<const int32_t> before);

  /// Appends a token. Takes constant time on average.
  void push(int32_t id);
  /// The next tokens, at most `most`. Ends before a token that the vocabulary does not have or that ends a text. Empty
  /// if the last token is new to the text.
  Draft guess(int64_t most, const Vocabulary& vocabulary) const;

 private:
  static constexpr int64_t kLongest = 3;  // number of last tokens that are looked up, then one less, down to 1
  static constexpr int64_t kMostEqual = 8;

  void append(int32_t id);
  /// Adds the last tokens to the table. Returns the place after an earlier occurrence of as many of them as possible; 0
  /// if there is none.
  int64_t exchange();
  /// Number of equal tokens before `place` and at the end of the text, at most kMostEqual.
  int64_t equal_before(int64_t place) const;
  size_t slot_of(int64_t length) const;
  void grow();

  std::vector<int32_t> text_;
  /// For the hash of each run of 1 to kLongest tokens, the place after its last occurrence; 0: none. A newer run with
  /// the same slot replaces an older one, and equal_before() tells whether the tokens are really equal.
  std::vector<int32_t> places_;
  int64_t next_ = 0;                            // place of the guess for the next token; 0: none
  int64_t equal_ = 0;                           // equal_before(next_)
  std::array<double, kMostEqual + 1> rates_{};  // share of right guesses by number of equal tokens: a moving average
};

/// Shortens drafts so that a step, which also reads `tokens` tokens without them, writes as many tokens as possible in
/// its time.
void shorten_drafts(std::span<Draft> drafts, int64_t tokens, const StepCost& cost);

}  // namespace attend
