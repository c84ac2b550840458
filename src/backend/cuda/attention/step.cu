#include "backend/cuda/attention/decode.cuh"
#include "backend/cuda/overlap.cuh"

// Attention of one f32 query per head over a bf16 cache, without options that change scores. There are 4 operations for
// each number of k and v, so the lower bound is the time to read k and v once; what counts is that all of a chunk is on
// its way at once. D / 8 lanes share a key: each has 8 of its numbers. A group of lanes takes the keys g, g + groups, …
// of the chunk, keeps their k in registers and their v in shared memory, and owns their scores. Each warp has its own
// maximum; the warps are joined in their order at the end.
namespace attend::cuda::attention {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kHeld = 8;  // keys of a group

template <int D>
struct StepShape {
  static constexpr int kLanes = D / 8, kGroups = kThreads / kLanes, kKeys = kHeld * kGroups;
};

__device__ float larger(float a, float b) {  // NaN wins
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

struct Eight {
  float at[8];
};
__device__ Eight widened(const uint4& bits) {
  const auto low = [](uint32_t pair) { return __uint_as_float(pair << 16); };
  const auto high = [](uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); };
  return {{low(bits.x), high(bits.x), low(bits.y), high(bits.y), low(bits.z), high(bits.z), low(bits.w), high(bits.w)}};
}

/// Adds each of eight numbers over the lanes of a group. Lane l gets the sum of number l mod 8.
template <int kLanes>
__device__ float group_sums(float (&x)[kHeld]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kLanes == 16) {
#pragma unroll
    for (float& value : x) value += __shfl_xor_sync(~0u, value, 8);
  }
#pragma unroll
  for (int distance = 4; distance > 0; distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int n = 0; n < distance; ++n) {
      const float sent = upper ? x[n] : x[n + distance], kept = upper ? x[n + distance] : x[n];
      x[n] = kept + __shfl_xor_sync(~0u, sent, distance);
    }
  }
  return x[0];
}

/// kMany: several queries share the keys: those of several heads, or with kPaged those of a run.
template <int D, bool kMany, bool kPaged>
__global__ void __launch_bounds__(kThreads, kMany ? 2 : 4) step_kernel(const __grid_constant__ DecodeCall call) {
  let_next_start();
  using Shape = StepShape<D>;
  constexpr int kLanes = Shape::kLanes, kGroups = Shape::kGroups;
  const Problem& p = call.p;
  const int chunk = static_cast<int>(blockIdx.x) % call.chunks, rest = static_cast<int>(blockIdx.x) / call.chunks;
  const int kv_head = rest % p.kv_heads, begin = chunk * Shape::kKeys;
  int first = rest / p.kv_heads, last = first;  // entries
  if constexpr (kPaged && kMany) {
    const int64_t* run = call.pages.runs + first;
    first = static_cast<int>(run[0]), last = static_cast<int>(run[1]) - 1;
  }
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, group = thread / kLanes,
            place = thread % kLanes;
  __shared__ uint4 values[kHeld][kThreads];
  __shared__ float outputs[kWarps][D], tops[kWarps], totals[kWarps];
  const auto* own_keys = static_cast<const uint16_t*>(p.k.data) + p.k.offset(kPaged ? 0 : first, kv_head, 0);
  const auto* own_values = static_cast<const uint16_t*>(p.v.data) + p.v.offset(kPaged ? 0 : first, kv_head, 0);
  if constexpr (!kPaged) {
    own_keys += begin * p.k.row;
    own_values += begin * p.v.row;
  }
  // The row of the chunk's key `at`, from own_keys and own_values on.
  const auto row_of = [&](int at) { return kPaged ? call.paged_row(last, begin + at) : at; };
  // Only the newest key depends on earlier kernels, but prefetching reads nothing. Tables are written by the host.
  if (const int known = Sequence::of(p, last).keys; begin + thread < min(known, begin + Shape::kKeys)) {
    const int64_t row = row_of(thread);
#pragma unroll
    for (int line = 0; line < D; line += 64) {
      prefetch_line(own_keys + row * p.k.row + line);
      prefetch_line(own_values + row * p.v.row + line);
    }
  }
  int rows[kHeld];  // of the group's keys
#pragma unroll
  for (int n = 0; n < kHeld; ++n) rows[n] = row_of(n * kGroups + group);
  wait_for_earlier();
  const Range any{Sequence::of(p, first).visible(0).begin, Sequence::of(p, last).visible(0).end};
  uint4 held[kHeld];
  unsigned loaded = 0;  // bit n: a query sees the group's n-th key
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    const int key = begin + n * kGroups + group;
    held[n] = make_uint4(0, 0, 0, 0);
    if (key < any.begin || key >= any.end) continue;
    loaded |= 1u << n;
    held[n] = *reinterpret_cast<const uint4*>(own_keys + rows[n] * p.k.row + 8 * place);
  }
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    if ((loaded >> n & 1u) == 0) continue;
    const uint16_t* from = own_values + rows[n] * p.v.row + 8 * place;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(&values[n][thread]))),
                 "l"(from));
  }

  for (int at = 0; at < (kMany ? (last - first + 1) * p.group() : 1); ++at) {
    const int b = kMany ? first + at / p.group() : first, r = kMany ? at % p.group() : 0;
    const int head = kv_head * p.group() + r;
    unsigned exists = loaded;  // bit n: the query sees the group's n-th key
    if constexpr (kPaged && kMany) {
      const Range seen = Sequence::of(p, b).visible(0);
#pragma unroll
      for (int n = 0; n < kHeld; ++n) {
        const int key = begin + n * kGroups + group;
        if (key < seen.begin || key >= seen.end) exists &= ~(1u << n);
      }
    }
    const float* query = static_cast<const float*>(p.q.data) + p.q.offset(b, head, 0) + 8 * place;
    const float4 low = *reinterpret_cast<const float4*>(query), high = *(reinterpret_cast<const float4*>(query) + 1);
    const Eight q{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    float sums[kHeld];
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      const Eight k = widened(held[n]);
      sums[n] = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) sums[n] = fmaf(q.at[e], k.at[e], sums[n]);
    }
    // This lane owns the key place mod 8 of its group; with 16 lanes, two own the same one.
    const float raw = group_sums<kLanes>(sums);
    const bool owns = (exists >> (place % 8) & 1u) != 0;
    const float score = owns ? multiply_alone(raw, static_cast<float>(p.scale)) : hidden_score<float>();
    float top = score;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) top = larger(top, __shfl_xor_sync(~0u, top, step));
    const float weight = weight_exp(score - (top == hidden_score<float>() ? 0.0f : top));
    float total = place < 8 ? weight : 0.0f;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);

    if (at == 0) asm volatile("cp.async.wait_all;" ::: "memory");  // a thread reads what it has copied itself
    Eight output{};
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      const float factor = __shfl_sync(~0u, weight, n, kLanes);
      if ((exists >> n & 1u) == 0) continue;
      const Eight v = widened(values[n][thread]);
#pragma unroll
      for (int e = 0; e < 8; ++e) output.at[e] = fmaf(factor, v.at[e], output.at[e]);
    }
#pragma unroll
    for (int step = kLanes; step < 32; step *= 2) {
#pragma unroll
      for (float& value : output.at) value += __shfl_xor_sync(~0u, value, step);
    }
    if (thread % 32 < kLanes) {
      *reinterpret_cast<float4*>(&outputs[warp][8 * place]) =
          make_float4(output.at[0], output.at[1], output.at[2], output.at[3]);
      *reinterpret_cast<float4*>(&outputs[warp][8 * place + 4]) =
          make_float4(output.at[4], output.at[5], output.at[6], output.at[7]);
    }
    if (thread % 32 == 0) tops[warp] = top, totals[warp] = total;
    __syncthreads();
    if (thread < D) {
      float most = tops[0], all = 0, sum = 0;
#pragma unroll
      for (int w = 1; w < kWarps; ++w) most = larger(most, tops[w]);
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float factor = tops[w] == hidden_score<float>() ? 0.0f : weight_exp(tops[w] - most);
        all = fmaf(totals[w], factor, all);
        sum = fmaf(outputs[w][thread], factor, sum);
      }
      put_chunk<float>(call, {b, kv_head, r, chunk}, thread, {most, all, sum});
    }
    if constexpr (kMany) __syncthreads();
  }
}

/// Whether rows can be read 16 bytes at a time.
bool is_wide(const Rows4& rows) {
  return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 && (rows.batch | rows.head | rows.row) % 8 == 0;
}

}  // namespace

bool can_step(const Problem& p) {
  const bool is_plain = p.mask.data == nullptr && p.bias.data == nullptr && p.alibi == nullptr && p.softcap == 0 &&
                        !p.drops && p.q_offsets == nullptr;
  return is_plain && p.queries == 1 && p.dim == p.width && (p.dim == 64 || p.dim == 128) && p.q.dtype == DType::f32 &&
         p.k.dtype == DType::bf16 && p.v.dtype == DType::bf16 && is_wide(p.q) && is_wide(p.k) && is_wide(p.v);
}

int step_keys(const Problem& p) { return p.dim == 64 ? StepShape<64>::kKeys : StepShape<128>::kKeys; }

void launch_step(const DecodeCall& call) {
  const bool is_paged = call.pages.tables != nullptr;
  const int entries = is_paged ? call.pages.count : call.p.batch;
  const int64_t ctas = int64_t{call.chunks} * call.p.kv_heads * entries;
  const bool many = call.p.heads != call.p.kv_heads || entries != call.p.batch;
  const auto run = [&](auto kernel) {
    launch_overlapped("attention.forward", kernel, {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads},
                      call);
  };
  const auto choose = [&]<int D>(std::integral_constant<int, D>) {
    if (is_paged) return run(many ? step_kernel<D, true, true> : step_kernel<D, false, true>);
    run(many ? step_kernel<D, true, false> : step_kernel<D, false, false>);
  };
  if (call.p.dim == 64) return choose(std::integral_constant<int, 64>{});
  choose(std::integral_constant<int, 128>{});
}

}  // namespace attend::cuda::attention
