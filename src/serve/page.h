#pragma once

#include <string>

#include "attend/serve/api.h"

namespace attend {

/// The Content-Security-Policy of a page: the one that it states in its head, and no frames.
std::string page_policy(const std::string& packed);

/// The page, still compressed: see ApiOptions::page.
ApiResponse page_response(const ApiRequest& request, const std::string& packed, const std::string& policy);

/// Decompresses gzip. Throws FormatError if `packed` is not gzip data.
std::string unpacked(const std::string& packed);

}  // namespace attend
