#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "attend/data/token_cache.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend::testing {

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// A cache in a temporary folder, removed on destruction.
struct CacheFile {
  using Ids = std::vector<int32_t>;
  explicit CacheFile(const std::vector<std::vector<Ids>>& examples) {
    TokenCacheWriter writer(path(), static_cast<int64_t>(examples[0].size()), "test");
    for (const std::vector<Ids>& example : examples) {
      if (example.size() == 1)
        writer.add({example[0]});
      else
        writer.add({example[0], example[1]});
    }
    writer.finish();
  }
  std::string path() const { return folder.file("ids"); }
  TokenCache open() const { return TokenCache::open(path()); }

  TemporaryFolder folder;
};

}  // namespace attend::testing
