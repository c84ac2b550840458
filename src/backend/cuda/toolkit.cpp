#include "backend/cuda/toolkit.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "attend/base/error.h"

namespace attend::cuda {
namespace {

/// Folders in which libraries are looked for; the empty one is the default path of dlopen.
std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
    all.push_back(std::string(home) + "/lib64/");
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  return all;
}

}  // namespace

void* open_toolkit_library(std::initializer_list<const char*> files) {
  for (const char* file : files) {
    for (const std::string& folder : folders()) {
      if (void* library = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

void* function_of(void* library, const char* name) {
  void* function = dlsym(library, name);
  require<DeviceError>(function != nullptr, "cuda: a library has no function ", name);
  return function;
}

}  // namespace attend::cuda
