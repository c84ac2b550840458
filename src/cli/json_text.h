#pragma once

#include <cstdio>
#include <string>

#include "attend/generate/generate_text.h"
#include "attend/io/json.h"

namespace attend::cli {

/// JSON on one line; UTF-8 is not escaped, and invalid bytes become U+FFFD.
inline std::string json_line(const Json& json) { return json.dump(); }

/// How the output of all commands names the end of a generated text.
inline const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::length:
      return "length";
    case Ending::end:
      return "end";
    case Ending::stop:
      return "stop";
    case Ending::callback:
      return "interrupted";
  }
  return "";
}

/// A score in the format common to all commands.
inline std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", score);
  return text;
}

}  // namespace attend::cli
