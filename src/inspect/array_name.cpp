#include "inspect/array_name.h"

#include <charconv>
#include <map>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend {
namespace {

const std::map<std::string_view, size_t>& number_counts() {
  static const std::map<std::string_view, size_t> counts{
      {"weights", 2}, {"scores", 2}, {"q", 2},          {"k", 2},      {"v", 2},       {"additive", 1},
      {"average", 1}, {"tile", 5},   {"thumbnails", 2}, {"values", 0}, {"rollout", 0}, {"parameters", 0}};
  return counts;
}

}  // namespace

ArrayName parse_array_name(std::string_view name) {
  ArrayName result;
  const size_t slash = name.find('/');
  result.what = name.substr(0, slash);
  const auto known = number_counts().find(result.what);
  require<ShapeError>(known != number_counts().end() && slash != std::string_view::npos, "inspect: there is no array ",
                      in_quotes(name));
  result.rest = name.substr(slash + 1);
  if (known->second == 0) return result;
  const char *at = result.rest.data(), *const end = at + result.rest.size();
  for (size_t i = 0; i < known->second; ++i) {
    int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    const bool is_last = i + 1 == known->second;
    const bool goes_on = is_last ? next == end : next != end && *next == '/';
    require<ShapeError>(error == std::errc() && number >= 0 && goes_on, "inspect: expected ", known->second,
                        " numbers after '", result.what, "/', got ", in_quotes(name));
    result.numbers.push_back(number);
    at = is_last ? next : next + 1;
  }
  return result;
}

}  // namespace attend
