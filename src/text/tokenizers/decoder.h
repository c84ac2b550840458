#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/text_work.h"

namespace attend::text {

/// Turns tokens, as spelt in the vocabulary, into text, step by step; the resulting strings are concatenated. The
/// result may be any bytes. Throws FormatError if decoding exceeds the limits of TextWork.
using Decoder = std::function<void(std::vector<std::string>&, TextWork&)>;

/// Reads the "decoder" of tokenizer.json; null joins the tokens with spaces. Throws FormatError, which names the
/// decoder, if it is unknown.
Decoder make_decoder(const Json& json);

}  // namespace attend::text
