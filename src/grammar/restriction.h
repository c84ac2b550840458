#pragma once

#include <optional>

#include "attend/grammar/grammar.h"
#include "attend/grammar/token_trie.h"
#include "grammar/token_strings.h"

namespace attend::grammar {

/// The texts of a grammar that tokens can write: while such a text is written token by token, there is always a token
/// that continues it or the text is complete. If the exact grammar would be too large, the result still has texts with
/// bytes of tokens that no sequence of tokens writes. Throws ConstraintError, which names a missing character, if the
/// tokens can write no text of the grammar.
Grammar restricted(const Grammar& grammar, const TokenTrie& trie, const TokenStrings& strings);

/// A short text of a grammar. Takes bytes outside of `bytes` only where every text has one. May be cut at 1,000 bytes.
std::string example_text(const Rules& rules, const ByteSet& bytes);

}  // namespace attend::grammar
