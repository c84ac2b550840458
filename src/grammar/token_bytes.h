#pragma once

#include <string>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend::grammar {

/// The bytes that each token adds to a text after other tokens; empty for special tokens and for tokens that cannot be
/// told.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace attend::grammar
