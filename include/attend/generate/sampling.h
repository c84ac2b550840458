#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attend {

/// How the next word is drawn from logits z. In this order:
/// 1. repetition_penalty r: z of every word that was read or written becomes z / r where positive, z · r where negative
///    (Keskar et al. 2019);
/// 2. temperature T: z / T; 0 takes the largest;
/// 3. top_k: only the k largest stay;
/// 4. top_p: of softmax(z) over those, only the fewest largest that together have at least p (Holtzman et al. 2020);
/// 5. min_p: only those with at least min_p times the probability of the largest;
/// 6. a draw from the softmax over what stays. Of equal logits smaller ids stay.
struct SamplingOptions {
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  uint64_t seed = 0;
};

/// Throws ShapeError for a number out of its range, by name.
void check_sampling(const SamplingOptions& options);

/// Which draw this is. The draw is a function of the seed and these alone, whatever else is in the batch and however
/// many threads there are.
struct DrawPlace {
  uint64_t text = 0;      ///< number of the sentence or prompt
  uint32_t copy = 0;      ///< of several samples for it
  uint32_t position = 0;  ///< of the word in what is written
};

/// The drawn id. `banned` ids are as if they had logit −∞; `history` holds what was read and written, in any order.
/// Throws ShapeError if no word may be drawn at all.
struct DrawInputs {
  std::span<const float> logits;
  std::span<const int32_t> history{};
  std::span<const int32_t> banned{};
};
int32_t draw(const DrawInputs& inputs, const SamplingOptions& options, DrawPlace place);

}  // namespace attend
