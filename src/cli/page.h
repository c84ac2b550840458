#pragma once

#include <string>

namespace attend::cli {

/// The page of web/ built into this program, gzip-compressed; empty in a build without the page.
std::string packed_page();

}  // namespace attend::cli
