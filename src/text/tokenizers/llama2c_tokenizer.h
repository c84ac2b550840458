#pragma once

#include <string>
#include <string_view>

namespace attend::text {

/// Converts a llama2.c tokenizer (tokenizer.bin: the length of the longest token, then score, length and bytes of each
/// token) back to the SentencePiece model it was made from. Throws FormatError if the bytes are damaged.
std::string sentencepiece_from_llama2c(std::string_view bytes);

}  // namespace attend::text
