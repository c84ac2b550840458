#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>

namespace attend {

/// Element types. Arithmetic runs in f32 and f64. The other types are for storage, conversion, indices and masks.
enum class DType : uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes per element.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}
const char* name_of(DType dtype);
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }
inline bool is_floating(DType dtype) { return dtype <= DType::bf16; }

/// The bits of a 16-bit float. Convert with to_float, to_float16 and to_bfloat16.
struct Float16 {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

float to_float(Float16 value);
/// Rounds to nearest, ties to even. NaN stays NaN.
Float16 to_float16(float value);

inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
/// Rounds as to_float16() does. Without a branch, so that loops become vector code.
inline BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet_nan = (bits >> 16) | 0x40u;
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded)};
}

/// The DType of a C++ type: dtype_of<float>() == DType::f32.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::u8;
  else {
    static_assert(std::is_same_v<T, bool>, "no DType for this type");
    return DType::boolean;
  }
}

}  // namespace attend
