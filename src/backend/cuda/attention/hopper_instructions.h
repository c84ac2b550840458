#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/attention/numbers.h"
#include "backend/cuda/attention/wgmma.h"

// Wrappers of the instructions that are particular to Hopper: barriers in shared memory (mbarrier), bulk copies (TMA),
// and the synchronisation of warpgroup products.
namespace attend::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- barriers -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives and lets the barrier's phase also wait for `bytes` of bulk copies.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Lets the barrier's phase also wait for `bytes` of bulk copies.
__device__ __forceinline__ void barrier_expect_more(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// The hardware's numbered barriers of a CTA; 0 is __syncthreads.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// A position in a ring of kStages buffers and the parity of the round.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// --- copies ---------------------------------------------------------------------------------------------------------

/// Copies the box at (column 0, row, part 0, head, batch) of a map made by tile_map into shared memory. Rows outside
/// of the tensor become 0.
__device__ __forceinline__ void copy_tile(void* to, const CUtensorMap& map, uint64_t* barrier, int row, int head,
                                          int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %3, %5, %6}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
/// Copies a box of a map made by pair_map; the part outside of the tensor becomes 0.
__device__ __forceinline__ void copy_pair_box(void* to, const CUtensorMap& map, uint64_t* barrier, int key, int query,
                                              int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(key), "r"(query), "r"(head), "r"(batch)
      : "memory");
}
/// Copies contiguous bytes into shared memory. Addresses and size are multiples of 16 bytes.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, uint64_t* barrier, uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
/// Starts to write contiguous bytes of shared memory to global memory.
__device__ __forceinline__ void write_bytes(void* to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
}
/// Starts to write a box of a map made by pair_map; the part outside of the tensor is left out.
__device__ __forceinline__ void write_pairs(const CUtensorMap& map, const void* from, int key, int query, int head,
                                            int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(key), "r"(query), "r"(head), "r"(batch)
               : "memory");
}
/// Starts to add floats in shared memory to those in global memory.
__device__ __forceinline__ void add_floats(float* to, const float* from, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void writes_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until this thread's writes have read their shared memory.
__device__ __forceinline__ void writes_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/// Waits until this thread's writes are complete.
__device__ __forceinline__ void writes_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// Makes ordinary writes to shared memory visible to bulk copies and products.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Orders ordinary accesses to global memory and bulk copies.
__device__ __forceinline__ void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ void store_release(uint32_t* address, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// --- products -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kPending groups of products are unfinished.
template <int kPending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of sums across this point.
template <int kCount>
__device__ __forceinline__ void pin(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&words)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(words[i])::"memory");
}

/// Tells the compiler that the old values are not needed, so that no registers keep them.
template <int kCount>
__device__ __forceinline__ void forget(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(sums[i]));
}

/// Descriptor of a tile in shared memory with 128-byte rows in the 128-byte swizzle. `part_bytes`: distance from one
/// 64-column part to the next, used where the rows of the tile are the summed axis.
__device__ __forceinline__ uint64_t tile_descriptor(const void* tile, uint32_t part_bytes = 16) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kEightRows | static_cast<uint64_t>((part_bytes >> 4) & 0x3fff) << 16 |
         static_cast<uint64_t>((shared_address(tile) & 0x3ffff) >> 4);
}
/// The descriptor of the tile that begins `bytes` later.
__device__ __forceinline__ uint64_t advance(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

/// The registers of a thread at launch, if the kernel is compiled for one CTA of kThreads on a multiprocessor. A CTA
/// never gets more than it had at launch: more_registers would wait for ever.
template <int kThreads>
inline constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;

template <int kRegisters>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- numbers --------------------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  else
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
/// Writes four 8 × 8 matrices of 16-bit elements; lane l gives the address of row l mod 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

/// The same matrices, transposed: the address of row l mod 8 of a matrix gets its column.
__device__ __forceinline__ void store_transposed(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

}  // namespace attend::cuda
