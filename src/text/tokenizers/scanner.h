#pragma once

#include <optional>
#include <string_view>

#include "text/tokenizers/pre_tokenizer.h"

namespace attend::text {

/// GPT-2's regular expression, which ByteLevel splits by.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Hand-written code for the split patterns of common vocabularies: the same pieces as the regular expression, many
/// times faster.
struct Scanner {
  enum class Family { gpt2, cl100k } family = Family::gpt2;
  // Differences between members of the cl100k family:
  int most_digits = 3;            ///< \p{N}{1,3} or \p{N}
  bool any_blank_before = false;  ///< \s?[^\s\p{L}\p{N}]+ instead of a plain space before it

  /// The scanner for exactly this expression, or nullopt. Known: GPT-2, GPT-4 (cl100k), Llama 3, Qwen 2.
  static std::optional<Scanner> for_pattern(std::string_view expression);

  /// Calls sink for every piece. Each piece is a match of the expression, and the pieces cover the text.
  void scan(Piece piece, const PieceSink& sink) const;
};

}  // namespace attend::text
