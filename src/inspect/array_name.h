#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace attend {

/// `weights/3/1` taken apart: what it is, and the numbers behind it; or the text behind it (values, rollout).
struct ArrayName {
  std::string_view what, rest;
  std::vector<int64_t> numbers;
};
/// Throws ShapeError for a name that is none.
ArrayName parse_array_name(std::string_view name);

}  // namespace attend
