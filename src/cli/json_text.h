#pragma once

#include <cstdio>
#include <string>

#include "attend/io/json.h"

namespace attend::cli {

/// JSON on one line; UTF-8 is not escaped, and invalid bytes become U+FFFD.
inline std::string json_line(const Json& json) { return json.dump(); }

/// A score in the format common to all commands.
inline std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", score);
  return text;
}

}  // namespace attend::cli
