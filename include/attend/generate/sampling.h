#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace attend {

/// How the next token is sampled from logits z. The steps, in this order:
/// 1. repetition_penalty r: the logit of every token in the history becomes z / r if positive, and z · r if negative
///    (Keskar et al. 2019);
///    then frequency_penalty · n and, if n > 0, presence_penalty are subtracted from the logit of a token that occurs n
///    times in the generated text, and logit_bias is added;
/// 2. temperature T: z / T; T = 0 selects the largest logit;
/// 3. top_k: keep the k largest logits;
/// 4. top_p: keep the smallest set of the most probable tokens whose probabilities sum to at least p, with the softmax
///    over the tokens kept so far (Holtzman et al. 2020);
/// 5. min_p: keep tokens with at least min_p times the probability of the most probable token;
/// 6. sample from the softmax over the remaining tokens.
/// If logits are equal, tokens with smaller ids are kept.
struct SamplingOptions {
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<std::pair<int32_t, float>> logit_bias{};  ///< token id and the number added to its logit
  uint64_t seed = 0;

  /// Whether step 1 changes logits.
  bool has_adjustments() const {
    return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0 || !logit_bias.empty();
  }
};

/// Throws a ShapeError that names the option if an option is out of range.
void check_sampling(const SamplingOptions& options);

/// Identifies a random draw. A draw depends only on the seed and these numbers, not on the rest of the batch or the
/// number of threads.
struct DrawPlace {
  uint64_t text = 0;      ///< index of the sentence or prompt
  uint32_t copy = 0;      ///< index of the sample for this text
  uint32_t position = 0;  ///< index of the token among the generated tokens
};

struct DrawInputs {
  std::span<const float> logits;
  std::span<const int32_t> history{};  ///< tokens of the prompt and the generated text, in any order
  std::span<const int32_t> written{};  ///< tokens of the generated text, in any order
  std::span<const int32_t> banned{};   ///< tokens that are treated as if their logit were −∞
};
/// Samples a token id. Throws ShapeError if all tokens are banned.
int32_t draw(const DrawInputs& inputs, const SamplingOptions& options, DrawPlace place);

}  // namespace attend
