#include "attend/tensor/tensor.h"

#include <gtest/gtest.h>

#include "attend/tensor/creation.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

TEST(Tensor, HandlesShareAndClonesDoNot) {
  const Tensor x = full({2, 3}, 4);
  const Tensor alias = x, copy = x.clone();
  x.data<float>()[0] = 7;
  EXPECT_EQ(alias.data<float>()[0], 7);
  EXPECT_EQ(copy.data<float>()[0], 4);
}

TEST(Tensor, EmptyHandleIsFalse) {
  EXPECT_FALSE(Tensor{});
  EXPECT_TRUE(zeros({0, 3}));
  EXPECT_EQ(zeros({0, 3}).numel(), 0);
  EXPECT_EQ(full({}, 2.5).item(), 2.5);
}

TEST(Tensor, StridedViewsReadInTheirOwnOrder) {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = x.as_strided({3, 2}, {1, 3}, 0);
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_EQ(turned.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(turned.clone().to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(x.as_strided({2, 2}, {0, 1}, 1).to_vector<float>(), (std::vector<float>{2, 3, 2, 3}));
}

TEST(Tensor, ConvertsBetweenAllTypes) {
  const Tensor x = tensor<float>({-2.5f, 0, 1, 65504, 3}, {5});
  for (DType dtype : {DType::f64, DType::f16, DType::f32}) {
    EXPECT_EQ(to(to(x, dtype), DType::f32).to_vector<float>(), x.to_vector<float>()) << dtype;
  }
  EXPECT_EQ(to(x, DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{-2, 0, 1, 65504, 3}));
  EXPECT_EQ(to(x, DType::boolean).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0, 1, 1, 1}));
  EXPECT_EQ(to(to(tensor<float>({1.0f / 3}, {1}), DType::bf16), DType::f32).item(), 0.333984375);
}

TEST(Tensor, SixteenBitFloatsRoundToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float16(1.0f + 0x1p-11f).bits, 0x3c00);  // a tie goes to the even neighbour
  EXPECT_EQ(to_float16(1.0f + 3 * 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);  // half a step beyond the largest: infinity
  EXPECT_EQ(to_float16(0x1p-24f).bits, 1);       // the smallest subnormal
  EXPECT_EQ(to_float16(0x1p-26f).bits, 0);
  EXPECT_EQ(to_float(Float16{0xfc00}), -inf);
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::nanf("")))));
  EXPECT_EQ(to_float(to_bfloat16(1.0f + 0x1p-8f)), 1.0f);
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {  // every finite half survives the round trip
    const Float16 half{static_cast<uint16_t>(bits)};
    ASSERT_EQ(to_float16(to_float(half)).bits, bits);
  }
}

TEST(Tensor, RandomNumbersAreReproducible) {
  EXPECT_EQ(normal({100}, 0, 1, {3, 4}).to_vector<float>(), normal({100}, 0, 1, {3, 4}).to_vector<float>());
  EXPECT_NE(normal({100}, 0, 1, {3, 4}).to_vector<float>(), normal({100}, 0, 1, {3, 5}).to_vector<float>());
}

TEST(Tensor, MemoryIsCounted) {
  const size_t before = memory_stats().live_bytes;
  reset_peak_memory();
  { const Tensor x = zeros({1 << 20}); }
  EXPECT_EQ(memory_stats().live_bytes, before);
  EXPECT_GE(memory_stats().peak_bytes, before + (size_t{4} << 20));
}

TEST(Tensor, ErrorsSayWhatWasExpected) {
  const Tensor x = zeros({2, 3});
  expect_error<ShapeError>([&] { x.data<double>(); }, "tensor: data() of f64 was requested, but the elements are f32");
  expect_error<ShapeError>([&] { x.item(); }, "item: expected one element, got shape [2, 3]");
  expect_error<ShapeError>([&] { x.dim(2); }, "dim: axis 2 is out of range for shape [2, 3]");
  expect_error<ShapeError>([&] { (void)tensor<float>({1, 2}, {3}); }, "tensor: shape [3] needs 3 values, got 2");
  expect_error<ShapeError>([&] { zeros({2, -1}); }, "empty: negative size in shape [2, -1]");
  expect_error<ShapeError>(
      [&] {
        zeros({int64_t{1} << 40, int64_t{1} << 40});
      },
      "empty: shape [1099511627776, 1099511627776] is too large");
  expect_error<ShapeError>(
      [&] {
        x.as_strided({3, 2}, {1, 3}, 0).data<float>();
      },
      "tensor: data() needs a contiguous tensor; shape [3, 2] has strides [1, 3]");
  EXPECT_THROW(zeros({2}, {DType::f32, {Device::Kind::cuda, 999}}), DeviceError);
}

}  // namespace
}  // namespace attend
