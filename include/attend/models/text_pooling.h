#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace attend {

/// How to compute one vector from the n token vectors of a text.
enum class TextPooling {
  first,      ///< the vector of the first token
  max,        ///< the maximum of each feature
  mean,       ///< the mean
  mean_sqrt,  ///< the sum divided by √n
  weighted,   ///< the mean, where the i-th token (from 1) has weight i
  last        ///< the vector of the last token
};
/// The settings of a sentence encoder. The results of several poolings are concatenated in the given order.
struct SentenceSettings {
  std::vector<TextPooling> pooling{TextPooling::mean};
  bool is_normalized = false;  ///< divide the vector by its Euclidean norm
  int64_t longest = 0;         ///< maximum tokens per text, special tokens included; 0: the model's context
};

/// The vector of a text, of size width · pooling.size(), from token vectors of `width` numbers each. Throws ShapeError
/// if there is no token or `tokens` is not a multiple of `width`.
std::vector<float> pooled_text(std::span<const float> tokens, int64_t width, const SentenceSettings& settings);

}  // namespace attend
