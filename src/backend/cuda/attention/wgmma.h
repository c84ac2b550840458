#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// Hopper's warpgroup products (wgmma): d[64 × N] (+)= a[64 × 16] · b[16 × N], f32 sums of 16-bit operands. A thread of
// the warpgroup holds N / 2 elements of d: element 4j + 2r + c is at row 16 · warp + lane / 4 + 8r and column
// 8j + 2 (lane mod 4) + c. Operand lists of assembler statements cannot be templates, hence the macros.
namespace attend::cuda {

#define ATTEND_FLOATS_8(i)                                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define ATTEND_FLOATS_16 ATTEND_FLOATS_8(0), ATTEND_FLOATS_8(8)
#define ATTEND_FLOATS_32 ATTEND_FLOATS_8(0), ATTEND_FLOATS_8(8), ATTEND_FLOATS_8(16), ATTEND_FLOATS_8(24)
#define ATTEND_FLOATS_40 ATTEND_FLOATS_32, ATTEND_FLOATS_8(32)
#define ATTEND_FLOATS_64 ATTEND_FLOATS_40, ATTEND_FLOATS_8(40), ATTEND_FLOATS_8(48), ATTEND_FLOATS_8(56)
#define ATTEND_FLOATS_88 ATTEND_FLOATS_64, ATTEND_FLOATS_8(64), ATTEND_FLOATS_8(72), ATTEND_FLOATS_8(80)
#define ATTEND_REGISTERS_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
#define ATTEND_REGISTERS_32                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define ATTEND_REGISTERS_40                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, "
#define ATTEND_REGISTERS_64                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
  "%59, %60, %61, %62, %63}, "
#define ATTEND_REGISTERS_88                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "  \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "  \
  "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "  \
  "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87}, "
#define ATTEND_PREDICATE(number) "{\n.reg .pred p;\nsetp.ne.b32 p, " number ", 0;\nwgmma.mma_async.sync.aligned."

/// a and b are descriptors of tiles in shared memory. kTransposeA and kTransposeB: the tile is contiguous along its
/// rows of d (columns of d) rather than along the summed axis.
template <class T, int N, bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (N == 32) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%18") "m64n32k16.f32.bf16.bf16 " ATTEND_REGISTERS_16
                                           "%16, %17, p, 1, 1, %19, %20;\n}"
                   : ATTEND_FLOATS_16
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%18") "m64n32k16.f32.f16.f16 " ATTEND_REGISTERS_16
                                           "%16, %17, p, 1, 1, %19, %20;\n}"
                   : ATTEND_FLOATS_16
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else if constexpr (N == 64) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%34") "m64n64k16.f32.bf16.bf16 " ATTEND_REGISTERS_32
                                           "%32, %33, p, 1, 1, %35, %36;\n}"
                   : ATTEND_FLOATS_32
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%34") "m64n64k16.f32.f16.f16 " ATTEND_REGISTERS_32
                                           "%32, %33, p, 1, 1, %35, %36;\n}"
                   : ATTEND_FLOATS_32
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else if constexpr (N == 80) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%42") "m64n80k16.f32.bf16.bf16 " ATTEND_REGISTERS_40
                                           "%40, %41, p, 1, 1, %43, %44;\n}"
                   : ATTEND_FLOATS_40
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%42") "m64n80k16.f32.f16.f16 " ATTEND_REGISTERS_40
                                           "%40, %41, p, 1, 1, %43, %44;\n}"
                   : ATTEND_FLOATS_40
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else if constexpr (N == 128) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%66") "m64n128k16.f32.bf16.bf16 " ATTEND_REGISTERS_64
                                           "%64, %65, p, 1, 1, %67, %68;\n}"
                   : ATTEND_FLOATS_64
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%66") "m64n128k16.f32.f16.f16 " ATTEND_REGISTERS_64
                                           "%64, %65, p, 1, 1, %67, %68;\n}"
                   : ATTEND_FLOATS_64
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else if constexpr (N == 176) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%90") "m64n176k16.f32.bf16.bf16 " ATTEND_REGISTERS_88
                                           "%88, %89, p, 1, 1, %91, %92;\n}"
                   : ATTEND_FLOATS_88
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%90") "m64n176k16.f32.f16.f16 " ATTEND_REGISTERS_88
                                           "%88, %89, p, 1, 1, %91, %92;\n}"
                   : ATTEND_FLOATS_88
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));
  } else {
    static_assert(N == 64, "no such width");
  }
}

/// a is in registers, two elements each: rows lane / 4, lane / 4 + 8 at columns 2 (lane mod 4), then at columns 8 more.
template <class T, int N, bool kTransposeB>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], const uint32_t* a, uint64_t b, int accumulate) {
  if constexpr (N == 64) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%37") "m64n64k16.f32.bf16.bf16 " ATTEND_REGISTERS_32
                                           "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                   : ATTEND_FLOATS_32
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%37") "m64n64k16.f32.f16.f16 " ATTEND_REGISTERS_32
                                           "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                   : ATTEND_FLOATS_32
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else if constexpr (N == 80) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%45") "m64n80k16.f32.bf16.bf16 " ATTEND_REGISTERS_40
                                           "{%40, %41, %42, %43}, %44, p, 1, 1, %46;\n}"
                   : ATTEND_FLOATS_40
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%45") "m64n80k16.f32.f16.f16 " ATTEND_REGISTERS_40
                                           "{%40, %41, %42, %43}, %44, p, 1, 1, %46;\n}"
                   : ATTEND_FLOATS_40
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else if constexpr (N == 128) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%69") "m64n128k16.f32.bf16.bf16 " ATTEND_REGISTERS_64
                                           "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
                   : ATTEND_FLOATS_64
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%69") "m64n128k16.f32.f16.f16 " ATTEND_REGISTERS_64
                                           "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
                   : ATTEND_FLOATS_64
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else if constexpr (N == 176) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      asm volatile(ATTEND_PREDICATE("%93") "m64n176k16.f32.bf16.bf16 " ATTEND_REGISTERS_88
                                           "{%88, %89, %90, %91}, %92, p, 1, 1, %94;\n}"
                   : ATTEND_FLOATS_88
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
    else
      asm volatile(ATTEND_PREDICATE("%93") "m64n176k16.f32.f16.f16 " ATTEND_REGISTERS_88
                                           "{%88, %89, %90, %91}, %92, p, 1, 1, %94;\n}"
                   : ATTEND_FLOATS_88
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB));
  } else {
    static_assert(N == 64, "no such width");
  }
}

#undef ATTEND_PREDICATE
#undef ATTEND_REGISTERS_16
#undef ATTEND_REGISTERS_32
#undef ATTEND_REGISTERS_40
#undef ATTEND_REGISTERS_64
#undef ATTEND_REGISTERS_88
#undef ATTEND_FLOATS_8
#undef ATTEND_FLOATS_16
#undef ATTEND_FLOATS_32
#undef ATTEND_FLOATS_40
#undef ATTEND_FLOATS_64
#undef ATTEND_FLOATS_88

}  // namespace attend::cuda
