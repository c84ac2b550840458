#include "attend/io/files.h"

#include <filesystem>
#include <fstream>

#include "attend/base/error.h"
#include "io/atomic_file.h"

namespace attend {

std::string read_file(const std::string& path, int64_t limit) {
  std::error_code ignored;  // a pipe would be waited for
  const bool is_odd = std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  require<FormatError>(!is_odd, path, ": expected a regular file");
  std::ifstream in(path, std::ios::binary);
  require<FormatError>(in.good(), path, ": cannot be read");
  std::string content;
  char block[1 << 16];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    content.append(block, static_cast<size_t>(in.gcount()));
    require<FormatError>(static_cast<int64_t>(content.size()) <= limit, path, ": is larger than ", limit, " bytes");
  }
  require<FormatError>(!in.bad(), path, ": cannot be read");
  return content;
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace attend
