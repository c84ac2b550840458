#include <algorithm>
#include <cctype>

#include "attend/serve/server.h"

namespace attend {
namespace {

bool is_address(const std::string& name) {
  const bool is_v6 = name.starts_with('[') && name.ends_with(']') &&
                     std::ranges::all_of(name.substr(1, name.size() - 2),
                                         [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
  const bool is_v4 = !name.empty() && std::ranges::count(name, '.') == 3 &&
                     std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  return is_v4 || is_v6;
}

}  // namespace

bool is_own_request(const std::string& host, const std::string& origin, const std::string& own) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  std::string name = host.substr(0, colon);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_ours = name == "localhost" || name == own || is_address(name);
  return is_ours && (origin.empty() || origin == "http://" + host);
}

}  // namespace attend
