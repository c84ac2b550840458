#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attend {

/// The total size of the files. Anything but a regular file (standard input, for example) counts as 0.
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
