#pragma once

#include <optional>
#include <string_view>

#include "text/tokenizers/pre_tokenizer.h"

namespace attend::text {

/// The regular expression of GPT-2, by which ByteLevel cuts.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Split patterns that real vocabularies use, as code: the same cuts as the expression, many times faster.
struct Scanner {
  enum class Family { gpt2, cl100k } family = Family::gpt2;
  // How members of the cl100k family differ:
  int most_digits = 3;            ///< \p{N}{1,3}, or \p{N} alone
  bool any_blank_before = false;  ///< \s?[^\s\p{L}\p{N}]+ instead of a plain blank

  /// The scanner for exactly this expression, if it is one we know: GPT-2, GPT-4 (cl100k), Llama 3, Qwen 2.
  static std::optional<Scanner> for_pattern(std::string_view expression);

  /// Calls sink for every piece, each a match of the expression; together they are the text.
  void scan(Piece piece, const PieceSink& sink) const;
};

}  // namespace attend::text
