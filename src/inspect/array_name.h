#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace attend {

/// A parsed array name such as `weights/3/1`: `what` is the part before the first slash, `rest` the text after it.
/// `numbers` holds the numbers in `rest`; it is empty for `values` and `rollout`, where `rest` is a name.
struct ArrayName {
  std::string_view what, rest;
  std::vector<int64_t> numbers;
};
/// Throws ShapeError if `name` is not a valid array name.
ArrayName parse_array_name(std::string_view name);

}  // namespace attend
