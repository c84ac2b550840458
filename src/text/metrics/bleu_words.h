#pragma once

#include <string>
#include <string_view>

#include "attend/text/bleu.h"

namespace attend::metric {

/// The line with spaces between its words.
std::u32string tokenize(std::u32string line, BleuTokenizer tokenizer);
std::string_view name_of(BleuTokenizer tokenizer);

}  // namespace attend::metric
