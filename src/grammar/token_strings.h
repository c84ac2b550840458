#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attend/grammar/token_trie.h"
#include "grammar/rules.h"

namespace attend::grammar {

/// The texts that tokens can write, as an automaton: concatenations of tokens, byte by byte. Place 0 is between two
/// tokens, every other place inside a token. Equal places are merged.
struct TokenStrings {
  struct Edge {
    ByteSet on;
    int32_t to = 0;
  };
  std::vector<std::vector<Edge>> places;  ///< each target of a place has one edge
  ByteSet bytes;                          ///< in any token

  /// The bytes that are tokens.
  ByteSet single_bytes() const;
};

/// Null if each of the 256 bytes is a token: the tokens then write any text.
std::shared_ptr<const TokenStrings> token_strings(const TokenTrie& trie);

/// How many bytes of a text the tokens can write at most, in whole tokens.
size_t written_prefix(const TokenTrie& trie, std::string_view text);

}  // namespace attend::grammar
