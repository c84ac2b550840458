#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/models/generation_rules.h"

namespace attend {

/// Maximum number of new tokens: `requested` unless it is 0, else the rules' max_new, else `usual`. In the last case
/// the rules' max_length also applies, unless `read` tokens alone reach it.
inline int64_t token_limit(const GenerationRules& rules, int64_t requested, int64_t read, int64_t usual) {
  if (requested > 0) return requested;
  if (rules.max_new > 0) return rules.max_new;
  const int64_t room = rules.max_length - read;
  return room > 0 ? std::min(room, usual) : usual;
}

}  // namespace attend
