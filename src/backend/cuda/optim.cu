#include <cmath>
#include <vector>

#include "backend/cuda/cuda.h"
#include "backend/cuda/types.cuh"

// One launch updates many parameters: a table of slots is a kernel parameter, and each CTA takes kChunk elements of one
// slot. Floor: memory bandwidth; Adam moves 28 bytes per f32 parameter.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kPacksPerThread = 2;
/// Bytes of a table. Kernel parameters may take 32,764 bytes.
constexpr size_t kTableBytes = 31 * 1024;

template <class Slot>
struct Table {
  static constexpr int kSlots = static_cast<int>(kTableBytes / (sizeof(Slot) + sizeof(uint32_t)));
  int count = 0;
  uint32_t end[kSlots];  ///< number of CTAs up to and including each slot
  Slot slot[kSlots];
};

/// The slot of a CTA, and its first element.
template <class Slot>
struct Place {
  const Slot& slot;
  int64_t first;
};
template <class Slot>
__device__ Place<Slot> place_of(const Table<Slot>& table, int64_t chunk) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (blockIdx.x < table.end[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return {table.slot[low], static_cast<int64_t>(blockIdx.x - (low > 0 ? table.end[low - 1] : 0)) * chunk};
}

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
  DType grad_dtype;
  bool aligned;
};
template <class T>
struct AdamStep {
  T beta1, beta2, rest1, rest2, eps;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ Table<AdamEntry<T>> table, AdamStep<T> step, Clip clip) {
  constexpr int kN = kPack<T>;
  double factor;
  if (!clip.factor(factor)) return;
  const T scale = static_cast<T>(factor);
  const auto [slot, first] = place_of(table, int64_t{kThreads} * kPacksPerThread * kN);
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
      const T root = fma(sqrt(v.at[i]), slot.inverse_root, step.eps);
      p.at[i] = fma(p.at[i], slot.keep_parameter, -(slot.step_size * m.at[i] / root));
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
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ Table<SgdEntry<T>> table, SgdStep<T> step, Clip clip) {
  constexpr int kN = kPack<T>;
  double factor;
  if (!clip.factor(factor)) return;
  const T scale = static_cast<T>(factor);
  const auto [slot, first] = place_of(table, int64_t{kThreads} * kPacksPerThread * kN);
  for_packs<kN>(first, slot.count, [&](int64_t at, int64_t valid) {
    T g[kN];
    load_grad<kN>(slot.grad, slot.grad_dtype, at, valid, slot.aligned, g);
    auto p = load_pack<kN>(slot.param + at, valid, slot.aligned);
#pragma unroll
    for (int i = 0; i < kN; ++i) g[i] = fma(g[i], scale, step.decay * p.at[i]);
    if (slot.buffer == nullptr) {
#pragma unroll
      for (int i = 0; i < kN; ++i) p.at[i] -= step.lr * g[i];
    } else {
      // The first step sets the buffer to the gradient, without dampening, whatever the buffer held (even NaN).
      Pack<T> buffer{};
      if (!slot.first) buffer = load_pack<kN>(slot.buffer + at, valid, slot.aligned);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        buffer.at[i] = slot.first ? g[i] : fma(step.momentum, buffer.at[i], step.fresh * g[i]);
        p.at[i] -= step.lr * (step.nesterov ? fma(step.momentum, buffer.at[i], g[i]) : buffer.at[i]);
      }
      store_pack<kN>(slot.buffer + at, buffer, valid, slot.aligned);
    }
    store_pack<kN>(slot.param + at, p, valid, slot.aligned);
  });
}

/// Calls add(row, elements) for each contiguous piece of a slot: the whole slot if all its matrices are dense.
template <class F, class... Matrices>
void for_dense(const Rows& param, F&& add, const Matrices&... matrices) {
  const bool dense = param.stride == param.cols && ((!matrices || matrices.stride == matrices.cols) && ...);
  if (dense || param.rows == 1) return add(0, param.numel());
  for (int64_t row = 0; row < param.rows; ++row) add(row, param.cols);
}

template <class T, class Pointer>
auto row_of(const BasicRows<Pointer>& x, int64_t row) {
  using Item = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return x ? static_cast<Item*>(x.data) + row * x.stride * static_cast<int64_t>(size_of(x.dtype)) : nullptr;
}

bool aligned_all(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(pointers, [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

/// Launches kernel(table, step, clip) once for each table that the entries fill.
template <class T, class Entry, class Step>
void launch(const char* name, const std::vector<Entry>& entries, void (*kernel)(Table<Entry>, Step, Clip),
            const Step& step, const Clip& clip) {
  constexpr int64_t kChunk = int64_t{kThreads} * kPacksPerThread * kPack<T>;
  Table<Entry> table;
  int64_t blocks = 0;
  const auto flush = [&] {
    if (table.count == 0) return;
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(table, step, clip);
    check_launch(name);
    table.count = 0;
    blocks = 0;
  };
  for (const Entry& entry : entries) {
    const int64_t needed = ceil_div(entry.count, kChunk);
    if (needed == 0) continue;
    if (table.count == Table<Entry>::kSlots || blocks + needed > std::numeric_limits<int32_t>::max()) flush();
    blocks += needed;
    table.slot[table.count] = entry;
    table.end[table.count++] = static_cast<uint32_t>(blocks);
  }
  flush();
}

template <class T>
void adam_of(std::span<const AdamSlot> slots, const AdamOptions& o, const Clip& clip) {
  std::vector<AdamEntry<T>> entries;
  for (const AdamSlot& slot : slots) {
    if (slot.param.dtype != dtype_of<T>()) continue;
    const auto t = static_cast<double>(slot.step);
    const double correction1 = 1 - std::pow(o.beta1, t), correction2 = 1 - std::pow(o.beta2, t);
    const auto add = [&](int64_t row, int64_t count) {
      const void* const grad = row_of<T>(slot.grad, row);
      char *const p = row_of<T>(slot.param, row), *const m = row_of<T>(slot.m, row), *const v = row_of<T>(slot.v, row);
      entries.push_back({grad, reinterpret_cast<T*>(p), reinterpret_cast<T*>(m), reinterpret_cast<T*>(v), count,
                         static_cast<T>(o.lr / correction1), static_cast<T>(1 / std::sqrt(correction2)),
                         static_cast<T>(o.decoupled ? 0 : slot.weight_decay),
                         static_cast<T>(o.decoupled ? 1 - o.lr * slot.weight_decay : 1), slot.grad.dtype,
                         aligned_all({grad, p, m, v})});
    };
    for_dense(slot.param, add, slot.grad, slot.m, slot.v);
  }
  const AdamStep<T> step{static_cast<T>(o.beta1), static_cast<T>(o.beta2), static_cast<T>(1 - o.beta1),
                         static_cast<T>(1 - o.beta2), static_cast<T>(o.eps)};
  launch<T>("adam", entries, adam_kernel<T>, step, clip);
}

template <class T>
void sgd_of(std::span<const SgdSlot> slots, const SgdOptions& o, const Clip& clip) {
  std::vector<SgdEntry<T>> entries;
  for (const SgdSlot& slot : slots) {
    if (slot.param.dtype != dtype_of<T>()) continue;
    const auto add = [&](int64_t row, int64_t count) {
      const void* const grad = row_of<T>(slot.grad, row);
      char *const p = row_of<T>(slot.param, row), *const buffer = row_of<T>(slot.buffer, row);
      entries.push_back({grad, reinterpret_cast<T*>(p), reinterpret_cast<T*>(buffer), count, slot.grad.dtype,
                         slot.first, aligned_all({grad, p, buffer})});
    };
    for_dense(slot.param, add, slot.grad, slot.buffer);
  }
  const SgdStep<T> step{static_cast<T>(o.lr), static_cast<T>(o.momentum), static_cast<T>(o.weight_decay),
                        static_cast<T>(1 - o.dampening), o.nesterov};
  launch<T>("sgd", entries, sgd_kernel<T>, step, clip);
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
