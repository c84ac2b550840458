#include "attend/io/files.h"

#include "io/atomic_file.h"
#include "io/regular_file.h"

namespace attend {

std::string read_file(const std::string& path, int64_t limit) { return read_regular(path, limit, Links::follow); }

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace attend
