#pragma once

#include <string>

namespace attend::cli {

/// The page of web/ as it was built into this program, packed by gzip; empty where it was built without.
std::string packed_page();

}  // namespace attend::cli
