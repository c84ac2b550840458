#include "backend/cuda/matmul/product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "backend/cuda/devices.h"
#include "backend/cuda/matmul/blas.h"

// cuBLASLt stores matrices by columns. A matrix stored by rows is its transpose, so cᵀ = bᵀ · aᵀ is computed: b is
// cuBLASLt's A and a its B.
namespace attend::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr uint32_t kMostAlignment = 16;  // no algorithm needs more, and the choice should not depend on addresses
constexpr const char* kName = "matmul.multiply";

struct Types {
  cublasComputeType_t compute;
  cudaDataType_t scale, operands, result;
};

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::i8:
      return CUDA_R_8I;
    case DType::i32:
      return CUDA_R_32I;
    default:
      throw_error<DeviceError>(kName, ": no product of type ", type);
  }
}

/// CUBLAS_COMPUTE_32F multiplies f32 exactly; TF32 must be asked for.
Types types_of(const Product& product) {
  const cudaDataType_t operands = data_type(product.type), result = data_type(product.c_type);
  if (product.type == DType::f64) return {CUBLAS_COMPUTE_64F, CUDA_R_64F, operands, result};
  if (product.type == DType::i8) return {CUBLAS_COMPUTE_32I, CUDA_R_32I, operands, result};
  return {product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F, operands, result};
}

/// 1 or 0 in each type in which cuBLASLt takes factors.
struct Factors {
  float f32;
  double f64;
  int32_t i32;
  explicit Factors(int value) : f32(static_cast<float>(value)), f64(value), i32(value) {}
  const void* as(cudaDataType_t type) const {
    if (type == CUDA_R_64F) return &f64;
    return type == CUDA_R_32I ? static_cast<const void*>(&i32) : &f32;
  }
};

uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address == 0 ? kMostAlignment
                      : static_cast<uint32_t>(std::min<uintptr_t>(kMostAlignment, address & (~address + 1)));
}

/// Everything that decides on the algorithm.
using Key = std::array<int64_t, 22>;

Key key_of(const Product& product) {
  const auto flag = [](bool value, int place) { return static_cast<int64_t>(value) << place; };
  return {static_cast<int64_t>(product.type),
          static_cast<int64_t>(product.c_type),
          product.m,
          product.n,
          product.k,
          product.batch,
          product.a.stride,
          product.a.batch_stride,
          product.b.stride,
          product.b.batch_stride,
          product.c_stride,
          product.c_batch_stride,
          flag(product.a.turned, 0) | flag(product.b.turned, 1) | flag(product.bias != nullptr, 2) |
              flag(product.accumulate, 3) | flag(product.tf32, 4) | flag(product.residual != nullptr, 5),
          static_cast<int64_t>(product.epilogue),
          product.residual_stride,
          alignment(product.a.data),
          alignment(product.b.data),
          alignment(product.c),
          alignment(product.bias),
          alignment(product.residual),
          alignment(product.aux)};
}

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (const int64_t value : key) hash = (std::rotl(hash, 23) ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
  }
};

template <class T, auto kDestroy>
struct Destroy {
  void operator()(T* object) const { (blas().*kDestroy)(object); }
};
using Desc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescOpaque_t, &Blas::desc_destroy>>;
using Layout =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutOpaque_t, &Blas::layout_destroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                   Destroy<cublasLtMatmulPreferenceOpaque_t, &Blas::preference_destroy>>;

/// A product prepared for cuBLASLt.
struct Plan {
  Desc desc;
  Layout a, b, c, residual;
  cudaDataType_t scale = CUDA_R_32F;
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
  bool is_possible = false;
};

/// b is cuBLASLt's A, so that the sums of a's rows are those of its B's columns.
cublasLtEpilogue_t epilogue_of(const Product& product) {
  const bool has_bias = product.bias != nullptr;
  switch (product.epilogue) {
    case Epilogue::none:
      return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::gelu:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::row_sums:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw_error<DeviceError>(kName, ": unknown epilogue");
}

/// The addresses of the bias and of the epilogue's matrix, which differ between products of one plan.
void set_addresses(cublasLtMatmulDesc_t desc, const Product& product) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* address) {
    check(blas().desc_set(desc, attribute, &address, sizeof address), kName);
  };
  const bool sums = product.epilogue == Epilogue::row_sums;
  if (product.bias != nullptr || sums) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums ? product.aux : product.bias);
  if (product.aux != nullptr && !sums) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.aux);
}

Desc new_desc(const Product& product, const Types& types) {
  cublasLtMatmulDesc_t desc = nullptr;
  check(blas().desc_create(&desc, types.compute, types.scale), kName);
  Desc owned(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(blas().desc_set(desc, attribute, &value, sizeof value), kName);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  if (product.bias != nullptr || product.epilogue == Epilogue::row_sums) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types.result);
  }
  if (product.epilogue == Epilogue::gelu || product.epilogue == Epilogue::gelu_backward) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
  }
  set_addresses(desc, product);
  return owned;
}

/// A batch of matrices stored by columns.
struct Columns {
  cudaDataType_t type;
  int64_t rows, columns, stride, batch, batch_stride;
};

Layout new_layout(const Columns& columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(blas().layout_create(&layout, columns.type, static_cast<uint64_t>(columns.rows),
                             static_cast<uint64_t>(columns.columns), columns.stride),
        kName);
  Layout owned(layout);
  if (columns.batch > 1) {
    const auto count = static_cast<int32_t>(columns.batch);
    const int64_t stride = columns.batch_stride;
    check(blas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), kName);
    check(blas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), kName);
  }
  return owned;
}

/// The operand [rows, columns] of a product, seen by columns.
Layout operand_layout(const Product& product, const Operand& operand, int64_t rows, int64_t columns) {
  const cudaDataType_t type = data_type(product.type);
  return operand.turned ? new_layout({type, rows, columns, operand.stride, product.batch, operand.batch_stride})
                        : new_layout({type, columns, rows, operand.stride, product.batch, operand.batch_stride});
}

Preference new_preference(const Product& product) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(blas().preference_create(&preference), kName);
  Preference owned(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(blas().preference_set(preference, attribute, &value, sizeof value), kName);
  };
  // Parts of a sum are added in f32, also if the result has 16 bits.
  const uint32_t reductions = size_of(product.c_type) == 2
                                  ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                  : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      alignment(product.residual != nullptr ? product.residual : product.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product.c));
  return owned;
}

/// Whether the parts of a sum that was split along k are added in a fixed order. INPLACE adds them by atomics.
bool is_deterministic(const cublasLtMatmulAlgo_t& algo) {
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written = 0;
  const cublasStatus_t status =
      blas().algo_get(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written);
  return status == CUBLAS_STATUS_SUCCESS && (scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0;
}

Plan new_plan(cublasLtHandle_t handle, const Product& product) {
  const Types types = types_of(product);
  Plan plan;
  plan.scale = types.scale;
  plan.desc = new_desc(product, types);
  plan.a = operand_layout(product, product.b, product.k, product.n);
  plan.b = operand_layout(product, product.a, product.m, product.k);
  plan.c = new_layout({types.result, product.n, product.m, product.c_stride, product.batch, product.c_batch_stride});
  if (product.residual != nullptr) {
    plan.residual = new_layout({types.result, product.n, product.m, product.residual_stride, 1, 0});
  }
  const cublasLtMatrixLayout_t added = plan.residual ? plan.residual.get() : plan.c.get();
  const Preference preference = new_preference(product);
  std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
  int count = 0;
  const cublasStatus_t status =
      blas().heuristic(handle, plan.desc.get(), plan.a.get(), plan.b.get(), added, plan.c.get(), preference.get(),
                       static_cast<int>(found.size()), found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return plan;
  check(status, kName);
  for (int i = 0; i < count && !plan.is_possible; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspace || !is_deterministic(result.algo)) {
      continue;
    }
    plan.algo = result.algo;
    plan.workspace = result.workspaceSize;
    plan.is_possible = true;
  }
  return plan;
}

/// The plans of one device. A lock is held while a product is launched, because plans hold the address of the bias.
struct Plans {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  std::unordered_map<Key, Plan, KeyHash> by_key;
};

constexpr size_t kMostPlans = 1 << 14;

/// Never destroyed, like all state of devices.
Plans& plans() {
  static std::mutex mutex;
  static auto* devices = new std::unordered_map<int, Plans>;
  std::lock_guard lock(mutex);
  return (*devices)[device_index()];
}

const Plan& plan_of(Plans& plans, const Product& product) {
  if (plans.handle == nullptr) check(blas().create(&plans.handle), "cuda: cublasLtCreate");
  const Key key = key_of(product);
  if (const auto found = plans.by_key.find(key); found != plans.by_key.end()) return found->second;
  if (plans.by_key.size() >= kMostPlans) plans.by_key.clear();
  return plans.by_key.emplace(key, new_plan(plans.handle, product)).first->second;
}

}  // namespace

Outcome run_product(const Product& product) {
  Plans& all = plans();
  std::lock_guard lock(all.mutex);
  const Plan& plan = plan_of(all, product);
  if (!plan.is_possible) return Outcome::no_algorithm;
  set_addresses(plan.desc.get(), product);
  const Scratch<std::byte> workspace(static_cast<int64_t>(plan.workspace));
  const bool adds = product.residual != nullptr;
  const Factors one(1), beta(product.accumulate || adds ? 1 : 0);
  check(blas().matmul(all.handle, plan.desc.get(), one.as(plan.scale), product.b.data, plan.a.get(), product.a.data,
                      plan.b.get(), beta.as(plan.scale), adds ? product.residual : product.c,
                      adds ? plan.residual.get() : plan.c.get(), product.c, plan.c.get(), &plan.algo, workspace.data(),
                      plan.workspace, stream()),
        kName);
  check_launch(kName);
  return Outcome::done;
}

}  // namespace attend::cuda
