#pragma once

#include <string>

namespace attend::cli {

/// The page of web/ that is built into this program, compressed with gzip; empty in a build without the page.
std::string packed_page();

}  // namespace attend::cli
