// Ops on 16-bit floats: results and gradients are compared with f64, and with naive code that rounds to 16 bits after
// every step.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/attention.h"
#include "attend/ops/cast.h"
#include "attend/ops/cross_entropy.h"
#include "attend/ops/dropout.h"
#include "attend/ops/embedding.h"
#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "attend/ops/matmul.h"
#include "attend/ops/norm.h"
#include "attend/ops/padding.h"
#include "attend/ops/position.h"
#include "attend/ops/precision.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "testing/gradients.h"
#include "testing/half_device.h"

namespace attend {
namespace {

using testing::half_device;
using testing::TensorFunction;
using Inputs = std::vector<Tensor>;

/// Values in [-1, 1) that bf16 represents exactly: f64 on the CPU.
Tensor exact_values(const Shape& shape, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = 2 * uniform_from_bits(philox(seed, i, 0)[0]) - 1;
    values[i] = static_cast<double>(to_float(to_bfloat16(value)));
  }
  return from_span<double>(values, shape, kCpu);
}

/// x rounded to bf16, in x's dtype. The gradient is rounded too.
Tensor rounded(const Tensor& x) {
  const auto round = [](const Tensor& value) { return to(to(value, DType::bf16), value.dtype()); };
  return record("rounded", round(x.detach()), {x}, [round](const Tensor& dy) -> Gradients { return {round(dy)}; });
}

struct Case {
  TensorFunction f;
  Inputs inputs;
  std::vector<size_t> parameters{};  ///< inputs that are f32 beside the 16-bit ones
  bool in_scope = false;             ///< under PrecisionScope(bf16)
  TensorFunction naive{};            ///< f with its intermediate results rounded; default: f
};

/// y and the gradients of all inputs.
struct Outcome {
  std::vector<std::vector<double>> values;
  std::vector<DType> dtypes;
};

Outcome run(const TensorFunction& f, const Inputs& leaves) {
  const Tensor y = f(leaves);
  const Tensor dy = exact_values(y.shape(), 99);
  backward(y, to(to(dy, y.device()), y.dtype()));
  Outcome result{{y.to_vector<double>()}, {y.dtype()}};
  for (const Tensor& leaf : leaves) {
    EXPECT_TRUE(grad(leaf));
    result.values.push_back(grad(leaf).to_vector<double>());
    result.dtypes.push_back(grad(leaf).dtype());
  }
  return result;
}

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(std::max<size_t>(a.size(), 1)));
}

/// Runs a case in f64, in naive bf16 and in bf16 on the device, and compares the errors. With inputs and dy that bf16
/// represents, a result that is rounded once has about the error of naive code with one rounding.
void expect_accurate(const Case& one) {
  Inputs exact, naive, half;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const bool is_parameter = std::ranges::find(one.parameters, i) != one.parameters.end();
    const Tensor& input = one.inputs[i];
    exact.push_back(parameter(input.clone()));
    naive.push_back(parameter(input.clone()));
    half.push_back(parameter(to(to(input, half_device()), is_parameter ? DType::f32 : DType::bf16)));
  }
  const Outcome expected = run(one.f, exact);
  const Outcome simple = run(
      [&](const Inputs& in) {
        Inputs all;
        for (const Tensor& input : in) all.push_back(rounded(input));
        return rounded((one.naive ? one.naive : one.f)(all));
      },
      naive);
  const Outcome got = run(
      [&](const Inputs& in) {
        const PrecisionScope scope(one.in_scope ? Precision::bf16 : Precision::f32, half_device());
        return one.f(in);
      },
      half);
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (size_t n = 0; n < got.values.size(); ++n) {
    SCOPED_TRACE(n == 0 ? "result" : "gradient of input " + std::to_string(n - 1));
    ASSERT_EQ(got.values[n].size(), expected.values[n].size());
    const std::vector<double> zero(expected.values[n].size());
    const double error = rms(got.values[n], expected.values[n]), limit = rms(simple.values[n], expected.values[n]);
    EXPECT_LE(error, 2 * limit + 1e-6 * rms(expected.values[n], zero));
    if (n > 0) {
      EXPECT_EQ(got.dtypes[n], half[n - 1].dtype());
    }
  }
}

TEST(Half, Linear) {
  for (const auto& [rows, in, out] : {std::array<int64_t, 3>{64, 96, 128}, {33, 31, 17}, {1, 8, 257}}) {
    const Inputs inputs{exact_values({rows, in}, 1), exact_values({out, in}, 2), exact_values({out}, 3)};
    const auto f = [](const Inputs& in_) { return linear(in_[0], in_[1], in_[2]); };
    expect_accurate({.f = f, .inputs = inputs, .parameters = {1, 2}});
    expect_accurate({.f = f, .inputs = inputs});
    // x of f32 is rounded in the scope; its gradient is f32.
    expect_accurate({.f = f, .inputs = inputs, .parameters = {0, 1, 2}, .in_scope = true});
  }
}

TEST(Half, LinearWithResidual) {
  const auto f = [](const Inputs& in) { return linear(in[0], in[1], in[2], in[3]); };
  for (const auto& [rows, in, out] : {std::array<int64_t, 3>{64, 96, 128}, {33, 31, 17}, {1, 8, 256}}) {
    const Inputs inputs{exact_values({rows, in}, 1), exact_values({out, in}, 2), exact_values({out}, 3),
                        exact_values({rows, out}, 4)};
    expect_accurate({.f = f, .inputs = inputs, .parameters = {1, 2}});
    expect_accurate({.f = f, .inputs = inputs, .parameters = {0, 1, 2, 3}, .in_scope = true});
  }
}

// The products of a GPU compute the activation and its gradient, if the inner width is a multiple of 8.
TEST(Half, LinearGeluLinear) {
  const auto f = [](const Inputs& in) { return linear_gelu_linear(in[0], {in[1], in[2]}, {in[3], in[4]}, in[5]); };
  const auto naive = [](const Inputs& in) {
    const Tensor hidden = rounded(gelu_tanh(rounded(linear(in[0], in[1], in[2]))));
    return rounded(linear(hidden, in[3], in[4])) + in[5];
  };
  for (const auto& [rows, dim, inner] : {std::array<int64_t, 3>{300, 64, 256}, {128, 96, 384}, {33, 31, 17}}) {
    const Inputs inputs{exact_values({2, rows, dim}, 1), exact_values({inner, dim}, 2) * 0.25,
                        exact_values({inner}, 3),        exact_values({dim, inner}, 4) * 0.25,
                        exact_values({dim}, 5),          exact_values({2, rows, dim}, 6)};
    expect_accurate({.f = f, .inputs = inputs, .parameters = {1, 2, 3, 4}, .naive = naive});
    expect_accurate({.f = f, .inputs = inputs, .parameters = {0, 1, 2, 3, 4, 5}, .in_scope = true, .naive = naive});
  }
}

// The gradients of x are added up in place: by norms and by products.
TEST(Half, ResidualStream) {
  const auto f = [](const Inputs& in) {
    const Tensor y = linear(layer_norm(in[0], in[1], in[2]), in[3], {}, in[0]);
    return linear(rms_norm(y, in[1]), in[3], {}, y) + linear(y, in[3]);
  };
  const auto naive = [](const Inputs& in) {
    const Tensor x = in[0];
    const Tensor y = rounded(rounded(linear(rounded(layer_norm(x, in[1], in[2])), in[3])) + x);
    return rounded(rounded(linear(rounded(rms_norm(y, in[1])), in[3])) + y) + rounded(linear(y, in[3]));
  };
  for (const int64_t dim : {8, 33, 768}) {
    const Inputs inputs{exact_values({40, dim}, 1), exact_values({dim}, 2), exact_values({dim}, 3),
                        exact_values({dim, dim}, 4) * 0.125};
    expect_accurate({.f = f, .inputs = inputs, .parameters = {1, 2, 3}, .naive = naive});
  }
}

TEST(Half, LinearEach) {
  const auto f = [](const Inputs& in) {
    const LinearWeights layers[]{{in[1], in[2]}, {in[3], {}}};
    const std::vector<Tensor> parts = linear_each(in[0], layers);
    return concat(parts, 2);
  };
  expect_accurate(
      {.f = f,
       .inputs = {exact_values({2, 9, 32}, 1), exact_values({24, 32}, 2), exact_values({24}, 3),
                  exact_values({40, 32}, 4)},
       .parameters = {1, 2, 3},
       .naive = [](const Inputs& in) {
         return concat({rounded(linear(rounded(in[0]), in[1], in[2])), rounded(linear(rounded(in[0]), in[3]))}, 2);
       }});
}

TEST(Half, Matmul) {
  expect_accurate({.f = [](const Inputs& in) { return matmul(in[0], in[1]); },
                   .inputs = {exact_values({3, 33, 40}, 1), exact_values({3, 40, 24}, 2)}});
  expect_accurate({.f = [](const Inputs& in) { return matmul(in[0], in[1]); },
                   .inputs = {exact_values({3, 33, 40}, 1), exact_values({40, 24}, 2)}});
}

// An f32 operand is used as it is, and its gradient is summed in f32.
TEST(Half, Arithmetic) {
  const Inputs inputs{exact_values({4, 33, 24}, 1),
                      exact_values({33, 24}, 2) * 0.25 + full({1}, 2, {DType::f64, kCpu})};
  using Op = Tensor (*)(const Tensor&, const Tensor&);
  for (const Op op : {Op{add}, Op{subtract}, Op{multiply}, Op{divide}}) {
    for (const std::vector<size_t>& parameters : {std::vector<size_t>{}, {0}, {1}}) {
      expect_accurate(
          {.f = [op](const Inputs& in) { return op(in[0], in[1]); }, .inputs = inputs, .parameters = parameters});
    }
  }
  expect_accurate({.f = [](const Inputs& in) { return scale(in[0], 0.7, 0.1); }, .inputs = {inputs[0]}});
}

TEST(Half, Activations) {
  using Op = Tensor (*)(const Tensor&);
  for (const Op op : {Op{relu}, Op{gelu}, Op{gelu_tanh}, Op{silu}, Op{tanh}, Op{sigmoid}, Op{exp}}) {
    expect_accurate(
        {.f = [op](const Inputs& in) { return op(scale(in[0], 4)); }, .inputs = {exact_values({7, 333}, 1)}});
  }
}

TEST(Half, Softmax) {
  for (const int64_t cols : {1, 31, 257, 3000}) {
    expect_accurate({.f = [](const Inputs& in) { return softmax(in[0]); }, .inputs = {exact_values({5, cols}, 1)}});
    expect_accurate({.f = [](const Inputs& in) { return log_softmax(in[0]); }, .inputs = {exact_values({5, cols}, 1)}});
  }
}

TEST(Half, Norms) {
  for (const int64_t cols : {8, 31, 257, 768, 3000}) {
    const Inputs inputs{exact_values({40, cols}, 1), exact_values({cols}, 2), exact_values({cols}, 3)};
    for (const std::vector<size_t>& parameters : {std::vector<size_t>{}, {1, 2}}) {
      expect_accurate({.f = [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); },
                       .inputs = inputs,
                       .parameters = parameters});
    }
    expect_accurate({.f = [](const Inputs& in) { return rms_norm(in[0], in[1]); },
                     .inputs = {inputs[0], inputs[1]},
                     .parameters = {1}});
  }
}

TEST(Half, Dropout) {
  expect_accurate({.f =
                       [](const Inputs& in) {
                         return dropout(in[0], 0.3, {5, 0});
                       },
                   .inputs = {exact_values({9, 111}, 1)}});
}

TEST(Half, Embedding) {
  std::vector<int64_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i % 19);
  const Tensor index = tensor<int64_t>(ids, {4, 75});
  const auto f = [&](const Inputs& in) { return embedding(index, in[0]); };
  expect_accurate({.f = f, .inputs = {exact_values({20, 33}, 1)}, .parameters = {0}, .in_scope = true});
  expect_accurate({.f = f, .inputs = {exact_values({20, 64}, 1)}, .parameters = {0}, .in_scope = true});
  expect_accurate({.f = f, .inputs = {exact_values({20, 64}, 1)}});
}

TEST(Half, ScopeChoosesTheDtype) {
  const Tensor table = to(to(exact_values({20, 8}, 1), half_device()), DType::f32), index = arange(5);
  EXPECT_EQ(embedding(index, table).dtype(), DType::f32);
  const PrecisionScope scope(Precision::bf16, half_device());
  EXPECT_EQ(embedding(index, table).dtype(), DType::bf16);
  EXPECT_EQ(linear(table, table).dtype(), DType::bf16);
  if (has_bf16(kCpu)) {
    EXPECT_EQ(linear(to(table, kCpu), to(table, kCpu)).dtype(), DType::f32);
  }
  EXPECT_EQ(linear(to(table, DType::f64), to(table, DType::f64)).dtype(), DType::f64);
}

TEST(Half, Gather) {
  const Tensor index = tensor<int64_t>({0, 5, 5, 3, 1, 1}, {2, 3});
  expect_accurate({.f = [&](const Inputs& in) { return gather(in[0], index); }, .inputs = {exact_values({2, 6}, 1)}});
}

TEST(Half, Rope) {
  expect_accurate({.f = [](const Inputs& in) { return rope(in[0]); }, .inputs = {exact_values({2, 3, 17, 32}, 1)}});
}

TEST(Half, ShapesAndPadding) {
  const Tensor lengths = tensor<int64_t>({3, 7}, {2});
  expect_accurate({.f =
                       [&](const Inputs& in) {
                         const Tensor joined = concat({in[0], slice(in[1], 1, 1, 4)}, 1);
                         return contiguous(transpose(zero_padding(joined, lengths), 1, 2));
                       },
                   .inputs = {exact_values({2, 4, 10}, 1), exact_values({2, 5, 10}, 2)}});
}

TEST(Half, Sums) {
  const Inputs inputs{exact_values({37, 50}, 1)};
  expect_accurate({.f = [](const Inputs& in) { return sum(in[0], 0); }, .inputs = inputs});
  expect_accurate({.f = [](const Inputs& in) { return mean(in[0], 1); }, .inputs = inputs});
  expect_accurate({.f = [](const Inputs& in) { return mean(in[0]); }, .inputs = inputs});
}

TEST(Half, Cast) {
  const Tensor x = parameter(to(to(exact_values({5, 7}, 1), half_device()), DType::f32));
  const Tensor y = cast(x, DType::bf16);
  EXPECT_EQ(y.dtype(), DType::bf16);
  backward(y, ones({5, 7}, {DType::bf16, half_device()}));
  EXPECT_EQ(grad(x).dtype(), DType::f32);
  testing::expect_error<ShapeError>([&] { cast(x, DType::i64); },
                                    "cast: expected floating-point types, got f32 and i64");
}

Tensor targets(int64_t rows, int64_t classes) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i % 5 == 3 ? -100 : i * 7919 % classes);
  return tensor(values, {rows});
}

TEST(Half, CrossEntropy) {
  for (const int64_t classes : {31, 5000}) {
    const Tensor target = targets(40, classes);
    expect_accurate({.f =
                         [&](const Inputs& in) {
                           const Tensor loss = cross_entropy(in[0], target, {.label_smoothing = 0.1});
                           EXPECT_NE(loss.dtype(), DType::bf16);
                           return loss;
                         },
                     .inputs = {exact_values({40, classes}, 1)}});
  }
}

TEST(Half, LinearCrossEntropy) {
  const Tensor target = targets(300, 123);
  const auto two_ops = [&](const Inputs& in) {
    return cross_entropy(rounded(linear(in[0], in[1], in[2])), target, {.label_smoothing = 0.1});
  };
  const auto f = [&](const Inputs& in) {
    return linear_cross_entropy(in[0], in[1], in[2], target, {.label_smoothing = 0.1});
  };
  const Inputs inputs{exact_values({300, 64}, 1), exact_values({123, 64}, 2), exact_values({123}, 3)};
  expect_accurate({.f = f, .inputs = inputs, .parameters = {1, 2}, .naive = two_ops});
  expect_accurate({.f = f, .inputs = inputs, .parameters = {0, 1, 2}, .in_scope = true, .naive = two_ops});
  // Enough classes for the kernel that keeps a row in shared memory, and too many for it.
  for (const int64_t classes : {4096, 5003, 60000}) {
    const Tensor many = targets(20, classes);
    const auto loss = [&](const Inputs& in) {
      return linear_cross_entropy(in[0], in[1], {}, many, {.label_smoothing = 0.1});
    };
    const auto apart = [&](const Inputs& in) {
      return cross_entropy(rounded(linear(in[0], in[1])), many, {.label_smoothing = 0.1});
    };
    expect_accurate({.f = loss,
                     .inputs = {exact_values({20, 8}, 1), exact_values({classes, 8}, 2)},
                     .parameters = {1},
                     .naive = apart});
  }
  // A loss that is multiplied: the gradients are scaled by an f32.
  const auto times = [](const TensorFunction& loss) {
    return [loss](const Inputs& in) { return scale(loss(in), 0.3); };
  };
  expect_accurate({.f = times(f), .inputs = inputs, .parameters = {1, 2}, .naive = times(two_ops)});
}

/// Attention step by step, each step rounded. `bias` is added to the scores.
Tensor naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& hidden) {
  const double factor = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  Tensor scores = rounded(scale(rounded(matmul(q, transpose(k, 2, 3))), factor));
  if (bias) scores = rounded(scores + bias);
  if (hidden) scores = scores + hidden;
  return rounded(matmul(rounded(softmax(scores)), v));
}

/// 0 where a causal query may attend, else a large negative number: [length, length].
Tensor causal_scores(int64_t length) {
  std::vector<double> values;
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < length; ++j) values.push_back(j <= i ? 0 : -1e30);
  }
  return from_span<double>(values, {length, length}, kCpu);
}

TEST(Half, Attention) {
  for (const int64_t dim : {24, 64, 128}) {
    const Inputs inputs{exact_values({2, 2, 70, dim}, 1), exact_values({2, 2, 70, dim}, 2),
                        exact_values({2, 2, 70, dim}, 3)};
    const Tensor hidden = causal_scores(70);
    expect_accurate({.f = [](const Inputs& in) { return attention(in[0], in[1], in[2]); },
                     .inputs = inputs,
                     .naive = [](const Inputs& in) { return naive_attention(in[0], in[1], in[2], {}, {}); }});
    expect_accurate({.f = [](const Inputs& in) { return attention(in[0], in[1], in[2], {.causal = true}); },
                     .inputs = inputs,
                     .naive = [&](const Inputs& in) { return naive_attention(in[0], in[1], in[2], {}, hidden); }});
  }
}

// The bias may be f32; its gradient is then f32.
TEST(Half, AttentionBias) {
  const Inputs inputs{exact_values({2, 2, 33, 16}, 1), exact_values({2, 2, 33, 16}, 2), exact_values({2, 2, 33, 16}, 3),
                      exact_values({2, 33, 33}, 4)};
  for (const std::vector<size_t>& parameters : {std::vector<size_t>{}, {3}}) {
    expect_accurate({.f = [](const Inputs& in) { return attention(in[0], in[1], in[2], {.bias = in[3]}); },
                     .inputs = inputs,
                     .parameters = parameters,
                     .naive = [](const Inputs& in) { return naive_attention(in[0], in[1], in[2], in[3], {}); }});
  }
}

TEST(Half, AttentionStatisticsAreF32) {
  const Tensor x = to(to(exact_values({1, 2, 9, 16}, 1), half_device()), DType::bf16);
  const AttentionResult result = attention_with_lse(x, x, x, {.alibi = alibi_slopes(2)});
  EXPECT_EQ(result.output.dtype(), DType::bf16);
  EXPECT_EQ(result.lse.dtype(), DType::f32);
  const Tensor weights = attention_weights(x, x, result.lse, {.alibi = alibi_slopes(2)}).values;
  EXPECT_EQ(weights.dtype(), DType::f32);
  for (const double row : sum(weights, 3).to_vector<double>()) EXPECT_NEAR(row, 1, 1e-5);
}

TEST(Half, TheCpuComputesInF32) {
  const Tensor x = zeros({2, 2}, {DType::bf16, kCpu});
  testing::expect_error<ShapeError>([&] { relu(x); }, "relu: x must be f32 or f64, got bf16");
}

}  // namespace
}  // namespace attend
