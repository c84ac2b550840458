#pragma once

#include <cstdio>
#include <string>

#include "attend/io/json.h"

namespace attend::cli {

/// JSON in one line; UTF-8 stays as it is, and bytes that are none become U+FFFD.
inline std::string json_line(const Json& json) { return json.dump(); }

/// A score, as every command prints it.
inline std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", score);
  return text;
}

}  // namespace attend::cli
