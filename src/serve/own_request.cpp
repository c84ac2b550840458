#include <algorithm>
#include <cctype>

#include "attend/serve/server.h"
#include "serve/host_name.h"

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
  const std::string name = host_name(host);
  const bool is_ours = name == "localhost" || name == own || is_address(name);
  return is_ours && (origin.empty() || origin == "http://" + host);
}

}  // namespace attend
