#pragma once

#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace attend {

/// The name in a header Host: without the port, in lower case.
inline std::string host_name(std::string_view host) {
  const size_t bracket = host.rfind(']');
  return ascii_lower(host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket)));
}

}  // namespace attend
