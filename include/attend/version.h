#pragma once

#include <string_view>

// The version of these headers. CMakeLists.txt reads it from here. Before 1.0, a new minor version may change the API
// and the ABI; a new patch version changes neither.
#define ATTEND_VERSION_MAJOR 0
#define ATTEND_VERSION_MINOR 2
#define ATTEND_VERSION_PATCH 0
#define ATTEND_VERSION "0.2.0"

namespace attend {

inline constexpr std::string_view kVersion = ATTEND_VERSION;

}  // namespace attend
