#pragma once

#include "backend/cuda/matmul/some_rows.cuh"

// Asynchronous copies to shared memory, and fragments of tensor-core products from there.
namespace attend::cuda {

__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// Starts a copy of 16 bytes, or of zeros.
__device__ inline void start_copy(void* to, const void* from, bool exists = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}
/// The copies that this thread has started since the last call become a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kPending groups of this thread are unfinished.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four matrices of 8 × 8 numbers; lane l has the address of row l mod 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&words)[4], const BFloat16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(at))
               : "memory");
}

/// This lane's address for the fragments of 16 rows of x (operand a) or of 16 rows of weights (two operands b).
__device__ inline const BFloat16* rows_at(const BFloat16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tile + lane % 16 * stride + lane / 16 * 8;
}
__device__ inline const BFloat16* weights_at(const BFloat16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tile + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
}

}  // namespace attend::cuda
