#pragma once

#include <string>

#include "attend/text/tokenizer.h"

namespace attend {

/// A token in readable form: as Tokenizer::token spells it, but with non-ASCII characters that a byte-level vocabulary
/// spells as bytes decoded (今天 instead of ä»Ĭå¤©; Ġthe is unchanged). A token that is only a part of a character is
/// unchanged. Throws ShapeError for an id out of range.
std::string readable_token(const Tokenizer& tokenizer, int32_t id);

}  // namespace attend
