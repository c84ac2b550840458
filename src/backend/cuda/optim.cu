#include <cmath>

#include "backend/cuda/cuda.h"
#include "backend/cuda/slots.cuh"

// One launch updates many parameters. Floor: memory bandwidth; Adam moves 28 bytes per f32 parameter.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kPacksPerThread = 2;
template <class T>
constexpr int64_t kChunk = int64_t{kThreads} * kPacksPerThread* kPack<T>;  ///< elements of a CTA

/// The gradient's factor, and whether to update at all.
struct Clip {
  const double* squares = nullptr;
  double max_norm = 0;

  __device__ bool factor(double& result) const {
    result = 1;
    if (squares == nullptr) return true;
    const double sum = *squares;
    if (!isfinite(sum)) return false;
    result = fmin(1.0, max_norm / (sqrt(sum) + 1e-6));
    return true;
  }
};
Clip clip_of(const GradientClip& clip) { return {static_cast<const double*>(clip.squares.data), clip.max_norm}; }

/// Calls f(index of a pack's first element, valid elements) for the packs of this thread.
template <int kN, class F>
__device__ void for_packs(int64_t first, int64_t count, F&& f) {
#pragma unroll
  for (int k = 0; k < kPacksPerThread; ++k) {
    const int64_t at = first + (int64_t{k} * kThreads + threadIdx.x) * kN;
    if (at < count) f(at, count - at);
  }
}

template <int kN, class T>
__device__ void load_grad(const void* grad, DType dtype, int64_t at, int64_t valid, bool aligned, T (&g)[kN]) {
  const auto load = [&](auto type) {
    const auto pack = load_pack<kN>(static_cast<const decltype(type)*>(grad) + at, valid, aligned);
#pragma unroll
    for (int i = 0; i < kN; ++i) g[i] = static_cast<T>(wide(pack.at[i]));
  };
  if (dtype == DType::bf16)
    load(BFloat16{});
  else if (dtype == DType::f16)
    load(Float16{});
  else
    load(T{});
}

template <class T>
struct AdamEntry {
  const void* grad;
  T *param, *m, *v;
  int64_t count;
  // m̂ = m / (1 − β1ᵗ), v̂ = v / (1 − β2ᵗ); p −= lr m̂ / (√v̂ + ε). AdamW first shrinks p by lr · decay.
  T step_size, inverse_root, decay_gradient, keep_parameter;
  const double* rates;  // in place of step_size, inverse_root and keep_parameter; null: the numbers above
  DType grad_dtype;
  bool aligned;
};
template <class T>
struct AdamStep {
  T beta1, beta2, rest1, rest2, eps;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ SlotTable<AdamEntry<T>> table, AdamStep<T> step, Clip clip) {
  constexpr int kN = kPack<T>;
  double factor;
  if (!clip.factor(factor)) return;
  const T scale = static_cast<T>(factor);
  const auto [slot, first] = place_in(table, kChunk<T>);
  const bool given = slot.rates != nullptr;
  const T step_size = given ? static_cast<T>(__ldg(slot.rates)) : slot.step_size;
  const T inverse_root = given ? static_cast<T>(__ldg(slot.rates + 1)) : slot.inverse_root;
  const T keep_parameter = given ? static_cast<T>(__ldg(slot.rates + 2)) : slot.keep_parameter;
  for_packs<kN>(first, slot.count, [&](int64_t at, int64_t valid) {
    T g[kN];
    load_grad<kN>(slot.grad, slot.grad_dtype, at, valid, slot.aligned, g);
    auto p = load_pack<kN>(slot.param + at, valid, slot.aligned);
    auto m = load_pack<kN>(slot.m + at, valid, slot.aligned);
    auto v = load_pack<kN>(slot.v + at, valid, slot.aligned);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const T gradient = fma(g[i], scale, slot.decay_gradient * p.at[i]);
      m.at[i] = fma(step.beta1, m.at[i], step.rest1 * gradient);
      v.at[i] = fma(step.beta2, v.at[i], step.rest2 * gradient * gradient);
      const T root = fma(sqrt(v.at[i]), inverse_root, step.eps);
      p.at[i] = fma(p.at[i], keep_parameter, -(step_size * m.at[i] / root));
    }
    store_pack<kN>(slot.m + at, m, valid, slot.aligned);
    store_pack<kN>(slot.v + at, v, valid, slot.aligned);
    store_pack<kN>(slot.param + at, p, valid, slot.aligned);
  });
}

template <class T>
struct SgdEntry {
  const void* grad;
  T *param, *buffer;
  int64_t count;
  DType grad_dtype;
  bool first, aligned;
};
template <class T>
struct SgdStep {
  T lr, momentum, decay, fresh;
  bool nesterov;
  const double* rate;  // in place of lr; null: lr
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ SlotTable<SgdEntry<T>> table, SgdStep<T> step, Clip clip) {
  constexpr int kN = kPack<T>;
  double factor;
  if (!clip.factor(factor)) return;
  const T scale = static_cast<T>(factor);
  const auto [slot, first] = place_in(table, kChunk<T>);
  const T lr = step.rate != nullptr ? static_cast<T>(__ldg(step.rate)) : step.lr;
  for_packs<kN>(first, slot.count, [&](int64_t at, int64_t valid) {
    T g[kN];
    load_grad<kN>(slot.grad, slot.grad_dtype, at, valid, slot.aligned, g);
    auto p = load_pack<kN>(slot.param + at, valid, slot.aligned);
#pragma unroll
    for (int i = 0; i < kN; ++i) g[i] = fma(g[i], scale, step.decay * p.at[i]);
    if (slot.buffer == nullptr) {
#pragma unroll
      for (int i = 0; i < kN; ++i) p.at[i] -= lr * g[i];
    } else {
      // The first step sets the buffer to the gradient, without dampening, whatever the buffer held (even NaN).
      Pack<T> buffer{};
      if (!slot.first) buffer = load_pack<kN>(slot.buffer + at, valid, slot.aligned);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        buffer.at[i] = slot.first ? g[i] : fma(step.momentum, buffer.at[i], step.fresh * g[i]);
        p.at[i] -= lr * (step.nesterov ? fma(step.momentum, buffer.at[i], g[i]) : buffer.at[i]);
      }
      store_pack<kN>(slot.buffer + at, buffer, valid, slot.aligned);
    }
    store_pack<kN>(slot.param + at, p, valid, slot.aligned);
  });
}

bool aligned_all(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(pointers, [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

const void* grad_row(const ConstRows& grad, int64_t row) {
  return static_cast<const char*>(grad.data) + row * grad.stride * static_cast<int64_t>(size_of(grad.dtype));
}

template <class T>
void adam_of(std::span<const AdamSlot> slots, const AdamOptions& o, const Clip& clip) {
  std::vector<AdamEntry<T>> entries;
  for (const AdamSlot& slot : slots) {
    if (slot.param.dtype != dtype_of<T>()) continue;
    const auto [step_size, inverse_root, keep_parameter] = adam_rates(o, slot.weight_decay, slot.step);
    const auto add = [&](int64_t row, int64_t count) {
      const void* const grad = grad_row(slot.grad, row);
      T *const p = row_at<T>(slot.param, row), *const m = row_at<T>(slot.m, row), *const v = row_at<T>(slot.v, row);
      entries.push_back({grad, p, m, v, count, static_cast<T>(step_size), static_cast<T>(inverse_root),
                         static_cast<T>(o.decoupled ? 0 : slot.weight_decay), static_cast<T>(keep_parameter),
                         static_cast<const double*>(slot.rates.data), slot.grad.dtype, aligned_all({grad, p, m, v})});
    };
    for_dense(slot.param.rows, slot.param.cols, add, slot.param, slot.grad, slot.m, slot.v);
  }
  const AdamStep<T> step{static_cast<T>(o.beta1), static_cast<T>(o.beta2), static_cast<T>(1 - o.beta1),
                         static_cast<T>(1 - o.beta2), static_cast<T>(o.eps)};
  for_tables(entries, kChunk<T>, [&](const auto& table, int64_t blocks) {
    adam_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(table, step, clip);
    check_launch("adam");
  });
}

template <class T>
void sgd_of(std::span<const SgdSlot> slots, const SgdOptions& o, const Clip& clip) {
  std::vector<SgdEntry<T>> entries;
  for (const SgdSlot& slot : slots) {
    if (slot.param.dtype != dtype_of<T>()) continue;
    const auto add = [&](int64_t row, int64_t count) {
      const void* const grad = grad_row(slot.grad, row);
      T *const p = row_at<T>(slot.param, row), *const buffer = row_at<T>(slot.buffer, row);
      entries.push_back({grad, p, buffer, count, slot.grad.dtype, slot.first, aligned_all({grad, p, buffer})});
    };
    for_dense(slot.param.rows, slot.param.cols, add, slot.param, slot.grad, slot.buffer);
  }
  const SgdStep<T> step{static_cast<T>(o.lr),
                        static_cast<T>(o.momentum),
                        static_cast<T>(o.weight_decay),
                        static_cast<T>(1 - o.dampening),
                        o.nesterov,
                        static_cast<const double*>(o.rate.data)};
  for_tables(entries, kChunk<T>, [&](const auto& table, int64_t blocks) {
    sgd_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(table, step, clip);
    check_launch("sgd");
  });
}

}  // namespace

void adam(std::span<const AdamSlot> slots, const AdamOptions& options, const GradientClip& clip) {
  adam_of<float>(slots, options, clip_of(clip));
  adam_of<double>(slots, options, clip_of(clip));
}

void sgd(std::span<const SgdSlot> slots, const SgdOptions& options, const GradientClip& clip) {
  sgd_of<float>(slots, options, clip_of(clip));
  sgd_of<double>(slots, options, clip_of(clip));
}

}  // namespace attend::cuda
