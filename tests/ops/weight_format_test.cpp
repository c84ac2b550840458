#include "attend/ops/weight_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::host_values;

TEST(WeightFormat, Int8IsWithinHalfAStep) {
  for (const int64_t dim : {1, 31, 33, 257}) {
    const Tensor weight = host_values({5, dim}, 1, DType::f32);
    const Tensor held = in_format(weight, WeightFormat::int8);
    EXPECT_EQ(held.dtype(), DType::i8);
    EXPECT_TRUE(is_reduced(held));
    const auto exact = weight.to_vector(), values = as_f32(held).to_vector(), scales = row_scales(held).to_vector();
    for (size_t i = 0; i < exact.size(); ++i) {
      const float step = scales[i / static_cast<size_t>(dim)];
      EXPECT_LE(std::abs(values[i] - exact[i]), 0.5001f * step);
    }
    for (size_t row = 0; row < scales.size(); ++row) {
      float most = 0;
      for (int64_t p = 0; p < dim; ++p) {
        most = std::max(most, std::abs(exact[row * static_cast<size_t>(dim) + static_cast<size_t>(p)]));
      }
      EXPECT_FLOAT_EQ(scales[row], most / 127);
    }
  }
}

TEST(WeightFormat, AnUnchangedTensorIsNotCopied) {
  const Tensor weight = host_values({4, 8}, 1, DType::f32);
  EXPECT_EQ(in_format(weight, WeightFormat::f32).storage(), weight.storage());
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) {
    const Tensor held = in_format(weight, format);
    EXPECT_EQ(in_format(held, format).storage(), held.storage());
    EXPECT_TRUE(is_reduced(held));
  }
  EXPECT_FALSE(is_reduced(weight));
  EXPECT_FALSE(is_reduced(zeros({2, 2}, {DType::i8})));
  EXPECT_STREQ(name_of(WeightFormat::int8), "int8");
}

TEST(WeightFormat, EmbeddingsTakeRowsOfAnyFormat) {
  const Tensor table = host_values({10, 33}, 1, DType::f32), ids = tensor<int64_t>({3, 9, 0, 3}, {2, 2});
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) {
    const Tensor held = in_format(table, format);
    const Tensor y = embedding(ids, held);
    EXPECT_EQ(y.shape(), (Shape{2, 2, 33}));
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.to_vector(), embedding(ids, as_f32(held)).to_vector());
  }
}

TEST(WeightFormat, RowsOfAMatrixKeepTheirScales) {
  const Tensor held = in_format(host_values({10, 33}, 1, DType::f32), WeightFormat::int8);
  const Tensor last = held.as_strided({4, 33}, {33, 1}, 6 * 33);
  const auto all = as_f32(held).to_vector(), part = as_f32(last).to_vector();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 6 * 33));
}

TEST(WeightFormat, LossFromReducedWeights) {
  const Tensor x = host_values({6, 33}, 1, DType::f32), weight = host_values({40, 33}, 2, DType::f32);
  const Tensor target = tensor<int64_t>({1, 39, 0, 7, -100, 3}, {6});
  const double exact = linear_cross_entropy(x, weight, {}, target).item();
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) {
    EXPECT_NEAR(linear_cross_entropy(x, in_format(weight, format), {}, target).item(), exact, 0.02);
  }
  const Tensor held = in_format(weight, WeightFormat::bf16);
  EXPECT_EQ(linear_cross_entropy(x, held, {}, target).item(), linear_cross_entropy(x, as_f32(held), {}, target).item());
}

TEST(WeightFormat, SeveralLayersAtOnceAreTheSame) {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    for (const int64_t rows : {1, 3, 40}) {
      const Tensor x = host_values({rows, 33}, 1, DType::f32);
      std::vector<LinearWeights> layers;
      for (const int64_t out : {31, 257, 1}) {
        layers.push_back({in_format(host_values({out, 33}, 2, DType::f32), format),
                          out == 31 ? Tensor{} : host_values({out}, 3, DType::f32)});
      }
      const auto together = linear_each(x, layers);
      ASSERT_EQ(together.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(together[i].to_vector(), linear(x, layers[i].weight, layers[i].bias).to_vector());
      }
    }
  }
}

TEST(WeightFormat, SeveralLayersAtOnceHaveGradients) {
  const auto f = [](const std::vector<Tensor>& in) {
    const auto both = linear_each(in[0], std::vector<LinearWeights>{{in[1], in[2]}, {in[3], {}}});
    return add(both[0], both[1]);
  };
  testing::expect_gradients(
      f, {host_values({2, 4}, 1), host_values({5, 4}, 2), host_values({5}, 3), host_values({5, 4}, 4)});
}

TEST(WeightFormat, PackedMatricesGiveTheSameBits) {
  const NoGrad no_grad;
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{31, 33}, Shape{257, 300}, Shape{100, 1100}, Shape{49, 2050}}) {
      const Tensor weight = in_format(host_values(shape, 1, DType::f32), format),
                   bias = host_values({shape[0]}, 2, DType::f32);
      const Tensor packed = weight.clone();
      pack_matrix(packed);
      for (const int64_t rows : {1, 2, 4, 5, 7, 9, 16, 17, 33, 64, 130, 255, 256}) {
        const Tensor x = host_values({rows, shape[1]}, 3, DType::f32);
        EXPECT_EQ(linear(x, packed, bias).to_vector(), linear(x, weight, bias).to_vector())
            << name_of(format) << " " << shape << ", " << rows << " rows";
        EXPECT_EQ(linear(x, packed).to_vector(), linear(x, weight).to_vector());
      }
      const Tensor ids = tensor<int64_t>({0, shape[0] - 1}, {2});
      EXPECT_EQ(embedding(ids, packed).to_vector(), embedding(ids, weight).to_vector());
    }
  }
}

TEST(WeightFormat, ViewsOfAPackedMatrixAreMultipliedInPlace) {
  const NoGrad no_grad;
  const Tensor weight = host_values({60, 40}, 1, DType::f32), x = host_values({20, 40}, 2, DType::f32);
  const Tensor expected = linear(x, weight.as_strided({30, 40}, {40, 1}, 30 * 40));
  pack_matrix(weight);
  EXPECT_EQ(linear(x, weight.as_strided({30, 40}, {40, 1}, 30 * 40)).to_vector(), expected.to_vector());
}

TEST(WeightFormat, Errors) {
  expect_error<ShapeError>([] { pack_matrix(zeros({3})); }, "pack_matrix: expected a matrix, got shape [3]");
  expect_error<ShapeError>([] { in_format(zeros({3}), WeightFormat::int8); },
                           "in_format: expected a matrix of floats, got f32 of shape [3]");
  expect_error<ShapeError>(
      [] {
        in_format(zeros({3, 3}, {DType::i64}), WeightFormat::bf16);
      },
      "in_format: expected a matrix of floats, got i64 of shape [3, 3]");
  const Tensor held = in_format(zeros({3, 4}), WeightFormat::int8);
  expect_error<ShapeError>([&] { in_format(held, WeightFormat::bf16); },
                           "in_format: cannot convert int8 to bf16; convert the original matrix");
  expect_error<ShapeError>(
      [&] {
        linear(parameter(zeros({1, 4})), held);
      },
      "linear: a weight of i8 is for inference only and has no gradient");
  expect_error<ShapeError>(
      [&] {
        linear(zeros({1, 4}, {DType::f64}), held);
      },
      "linear: a weight of i8 needs x in f32, got f64");
  expect_error<ShapeError>(
      [&] {
        linear(zeros({1, 4}), zeros({3, 4}, {DType::i8}));
      },
      "linear: weight must be f32 or f64, got i8");
  expect_error<ShapeError>([] { row_scales(zeros({3, 4})); }, "row_scales: expected an int8 matrix, got f32");
  expect_error<ShapeError>(
      [&] {
        copy_values(zeros({3, 4}), held);
      },
      "copy_values: expected tensors without scales, got an int8 matrix");
}

}  // namespace
}  // namespace attend
