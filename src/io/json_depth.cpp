#include "io/json_depth.h"

namespace attend {

std::optional<size_t> deep_json_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    if (in_string) {
      if (byte == '\\') ++i;
      if (byte == '"') in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '{' || byte == '[') {
      if (++depth > kDeepestJson) return i;
    } else if (byte == '}' || byte == ']') {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace attend
