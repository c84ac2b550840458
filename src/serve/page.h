#pragma once

#include <string>

#include "attend/serve/api.h"

namespace attend {

/// The page, still compressed: see ApiOptions::page.
ApiResponse page_response(const ApiRequest& request, const std::string& packed);

/// Decompresses gzip. Throws FormatError if `packed` is not gzip data.
std::string unpacked(const std::string& packed);

}  // namespace attend
