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
/// Where the words of attend/generate/align.h lie in the text.
std::vector<WordPlace> word_places(const std::string& text);

/// Tokens first … last − 1 of a word. Words that share one token share its range.
struct TokenRange {
  int64_t first = 0, last = 0;
};
/// Which of the `count` tokens of encode(text) make up each word: a word ends where the tokens of the text up to it do.
std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, const std::string& text,
                                    const std::vector<WordPlace>& words);
/// Which of the tokens `ids`, whose text is decode(ids), make up each word.
std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                    const std::vector<WordPlace>& words);

}  // namespace attend
