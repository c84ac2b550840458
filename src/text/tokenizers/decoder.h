#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/text_work.h"

namespace attend::text {

/// Tokens as the vocabulary spells them, step by step into text: the strings that remain are put one behind the other.
/// The result may be any bytes. Throws FormatError where the tokens cost more than they may: see TextWork.
using Decoder = std::function<void(std::vector<std::string>&, TextWork&)>;

/// The "decoder" of tokenizer.json; null joins the tokens with blanks. Throws FormatError naming one that is not known.
Decoder make_decoder(const Json& json);

}  // namespace attend::text
