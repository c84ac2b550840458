#include "base/plugin_file.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

namespace attend {
namespace {

namespace fs = std::filesystem;

/// The folder of this library or program; empty if it is unknown.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::vector<std::string> plugin_places(const std::string& file) {
  std::vector<std::string> places;
  const auto add = [&](const fs::path& place) {
    const std::string path = place.lexically_normal().string();
    if (std::find(places.begin(), places.end(), path) == places.end()) places.push_back(path);
  };
  if (const fs::path program = program_folder(); !program.empty()) {
    add(program / file);
    add(program / "../lib/attend" / file);
  }
  if (const fs::path own = own_folder(); !own.empty()) {
    add(own / file);
    add(own / "attend" / file);
  }
  places.push_back(file);
  return places;
}

void* open_library(const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }

}  // namespace attend
