#pragma once

#include <string>

#include "attend/text/tokenizer.h"

namespace attend {

/// A token as people read it: as Tokenizer::token spells it, except that the characters beyond ASCII that a byte-level
/// vocabulary spells as bytes are shown as themselves (今天, not ä»Ĭå¤©; Ġthe stays). Tokens that are a part of a
/// character stay as spelt. Throws ShapeError for an id out of range.
std::string readable_token(const Tokenizer& tokenizer, int32_t id);

}  // namespace attend
