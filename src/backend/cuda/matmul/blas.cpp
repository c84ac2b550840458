#include "backend/cuda/matmul/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "attend/base/error.h"
#include "backend/cuda/devices.h"
#include "backend/cuda/messages.h"

namespace attend::cuda {
namespace {

/// Folders in which cuBLASLt is looked for; the empty one is the default path of dlopen.
std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
    all.push_back(std::string(home) + "/lib64/");
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  return all;
}

void* open_library() {
  for (const char* version : {"13", "12"}) {
    for (const std::string& folder : folders()) {
      const std::string file = folder + "libcublasLt.so." + version;
      if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  throw_error<DeviceError>(no_blas_text());
}

Blas opened() {
  void* library = open_library();
  const auto load = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    require<DeviceError>(function != nullptr, "cuda: cuBLASLt has no function ", name);
  };
  Blas functions;
  load(functions.create, "cublasLtCreate");
  load(functions.matmul, "cublasLtMatmul");
  load(functions.desc_create, "cublasLtMatmulDescCreate");
  load(functions.desc_destroy, "cublasLtMatmulDescDestroy");
  load(functions.desc_set, "cublasLtMatmulDescSetAttribute");
  load(functions.layout_create, "cublasLtMatrixLayoutCreate");
  load(functions.layout_destroy, "cublasLtMatrixLayoutDestroy");
  load(functions.layout_set, "cublasLtMatrixLayoutSetAttribute");
  load(functions.preference_create, "cublasLtMatmulPreferenceCreate");
  load(functions.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  load(functions.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  load(functions.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  load(functions.algo_get, "cublasLtMatmulAlgoConfigGetAttribute");
  return functions;
}

}  // namespace

const Blas& blas() {
  static const Blas functions = opened();
  return functions;
}

void open_blas() { blas(); }

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw_error<DeviceError>(what, ": cuBLASLt reports error ", static_cast<int>(status));
}

}  // namespace attend::cuda
