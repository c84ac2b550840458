#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

struct WordPlace {
  size_t begin = 0, end = 0;  // bytes of the text
};
/// The byte ranges of the words that words_of() in attend/generate/align.h returns.
std::vector<WordPlace> word_places(const std::string& text);

/// The tokens first … last − 1 of a word. Words that share a token have the same range.
struct TokenRange {
  int64_t first = 0, last = 0;
};
/// The range of tokens of encode(text) for each word. A word ends where the tokens of the text up to its end do.
std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, const std::string& text,
                                    const std::vector<WordPlace>& words);
/// The range of tokens in `ids` for each word of the text decode(ids).
std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                    const std::vector<WordPlace>& words);

}  // namespace attend
