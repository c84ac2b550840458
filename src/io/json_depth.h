#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace attend {

/// Maximum nesting depth of JSON. The reader and the writer recurse, so deeper nesting could overflow the stack. Known
/// files nest about eight levels.
constexpr int kDeepestJson = 32;
/// Offset of the byte at which JSON text exceeds kDeepestJson levels, or nullopt if it does not.
std::optional<size_t> deep_json_at(std::string_view text);
inline bool is_shallow_json(std::string_view text) { return !deep_json_at(text); }

}  // namespace attend
