#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attend {

/// The sizes of files together; what is no file (the standard input) counts nothing.
inline double bytes_of(const std::vector<std::string>& files) {
  double total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!error) total += static_cast<double>(size);
  }
  return total;
}

}  // namespace attend
