#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace attend {

/// What reads and writes JSON recurs, so deep nesting ends in a stack overflow; files as we know them nest about eight
/// deep.
constexpr int kDeepestJson = 32;
/// The byte at which JSON text becomes nested deeper than that, if it does.
std::optional<size_t> deep_json_at(std::string_view text);
inline bool is_shallow_json(std::string_view text) { return !deep_json_at(text); }

}  // namespace attend
