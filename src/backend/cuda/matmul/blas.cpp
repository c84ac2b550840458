#include "backend/cuda/matmul/blas.h"

#include "attend/base/error.h"
#include "backend/cuda/devices.h"
#include "backend/cuda/messages.h"
#include "backend/cuda/toolkit.h"

namespace attend::cuda {
namespace {

Blas opened() {
  void* library = open_toolkit_library({"libcublasLt.so.13", "libcublasLt.so.12"});
  require<DeviceError>(library != nullptr, no_blas_text());
  Blas functions;
  load(functions.create, library, "cublasLtCreate");
  load(functions.matmul, library, "cublasLtMatmul");
  load(functions.desc_create, library, "cublasLtMatmulDescCreate");
  load(functions.desc_destroy, library, "cublasLtMatmulDescDestroy");
  load(functions.desc_set, library, "cublasLtMatmulDescSetAttribute");
  load(functions.layout_create, library, "cublasLtMatrixLayoutCreate");
  load(functions.layout_destroy, library, "cublasLtMatrixLayoutDestroy");
  load(functions.layout_set, library, "cublasLtMatrixLayoutSetAttribute");
  load(functions.preference_create, library, "cublasLtMatmulPreferenceCreate");
  load(functions.preference_destroy, library, "cublasLtMatmulPreferenceDestroy");
  load(functions.preference_set, library, "cublasLtMatmulPreferenceSetAttribute");
  load(functions.heuristic, library, "cublasLtMatmulAlgoGetHeuristic");
  load(functions.algo_get, library, "cublasLtMatmulAlgoConfigGetAttribute");
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
