#pragma once

#include <string>

#include "attend/serve/api.h"

namespace attend {

/// The page, packed as it is: see ApiOptions::page.
ApiResponse page_response(const ApiRequest& request, const std::string& packed);

/// Unpacks gzip. Throws FormatError for what is none.
std::string unpacked(const std::string& packed);

}  // namespace attend
