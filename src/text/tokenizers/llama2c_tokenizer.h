#pragma once

#include <string>
#include <string_view>

namespace attend::text {

/// The tokenizer of llama2.c (tokenizer.bin: the longest token's length, then for each token score, length and bytes)
/// as the SentencePiece model it was made from. Throws FormatError for damaged bytes.
std::string sentencepiece_from_llama2c(std::string_view bytes);

}  // namespace attend::text
