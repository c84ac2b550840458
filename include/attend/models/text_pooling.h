#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace attend {

/// How the vectors of a text's tokens become one.
enum class TextPooling {
  first,      ///< the first token's
  max,        ///< the largest number of each feature
  mean,       ///< their mean
  mean_sqrt,  ///< their sum divided by the root of their number
  weighted,   ///< their mean, token i counted i times
  last        ///< the last token's
};
/// What a sentence encoder does after its layers. Several poolings stand side by side, in the order given.
struct SentenceSettings {
  std::vector<TextPooling> pooling{TextPooling::mean};
  bool is_normalized = false;  ///< divided by its length
  int64_t longest = 0;         ///< most tokens of a text, special ones counted; 0: the model's context
};

/// One vector for `count` tokens of `width` numbers each. The result is width · poolings.size() long.
std::vector<float> pooled_text(std::span<const float> tokens, int64_t width, const SentenceSettings& settings);

}  // namespace attend
