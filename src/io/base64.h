#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace attend {

void append_base64(std::string& out, std::span<const std::byte> bytes);

}  // namespace attend
