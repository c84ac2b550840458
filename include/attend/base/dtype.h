#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>

namespace attend {

/// Element types. Arithmetic runs in f32 and f64. The other types are for storage, conversion, indices and masks.
enum class DType : uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };

size_t size_of(DType dtype);  ///< bytes per element
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
float to_float(BFloat16 value);
/// Rounds to nearest, ties to even. NaN stays NaN.
Float16 to_float16(float value);
BFloat16 to_bfloat16(float value);

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
