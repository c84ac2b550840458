#include <algorithm>
#include <array>
#include <cmath>

#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "ops/attention_16bit_checks.h"

// Attention in bf16 and f16 with more blocks of keys than the GPU has multiprocessors, which take one after another.
namespace attend {
namespace {

using testing::Attention16Bit;
using testing::expect_accurate;
using testing::kGpu;

class AttentionOfManyHeads : public Attention16Bit {};
INSTANTIATE_TEST_SUITE_P(All, AttentionOfManyHeads, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return test.param == DType::bf16 ? "bf16" : "f16"; });

/// Many heads of a long sequence: CTAs take several items, and every part of dq waits for its turn.
TEST_P(AttentionOfManyHeads, SameBitsInEveryRun) {
  for (int64_t dim : {64, 128}) {
    for (bool causal : {false, true}) {
      const auto moved = [&](uint64_t seed) {
        return parameter(to(uniform({2, 16, 2500, dim}, -1, 1, {seed, 0}, {DType::f32, kGpu}), GetParam()));
      };
      const Tensor q = moved(1), k = moved(2), v = moved(3);
      const Tensor dy = to(uniform({2, 16, 2500, dim}, -1, 1, {4, 0}, {DType::f32, kGpu}), GetParam());
      std::vector<std::vector<double>> first;
      for (int run = 0; run < 10; ++run) {
        for (const Tensor& x : {q, k, v}) zero_grad(x);
        backward(attention(q, k, v, {.causal = causal}), dy);
        for (size_t n = 0; const Tensor& x : {q, k, v}) {
          const auto got = to(to(grad(x), kCpu), DType::f64).to_vector<double>();
          if (run == 0)
            first.push_back(got);
          else
            EXPECT_TRUE(got == first[n]) << dim << " " << causal << " " << run;
          ++n;
        }
      }
    }
  }
}

constexpr int64_t kShortLengths[] = {64, 100, 256, 1024};

/// Calls f with dropout or not, causal or not.
void for_each_training(const std::function<void(const AttentionOptions&)>& f) {
  for (const bool drops : {false, true}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::string(causal ? "causal" : "full") + (drops ? ", dropout" : ""));
      f({.causal = causal, .dropout = drops ? 0.1 : 0, .random = {11, 3}});
    }
  }
}

TEST_P(AttentionOfManyHeads, ShortSequences) {
  for (const int64_t length : kShortLengths) {
    SCOPED_TRACE(length);
    for_each_training([&](const AttentionOptions& options) {
      expect_accurate({.dtype = GetParam(),
                       .heads = 2,
                       .kv_heads = 1,
                       .queries = length,
                       .keys = length,
                       .dim = 64,
                       .width = 64,
                       .options = options});
    });
  }
}

/// More heads than CTAs: each takes many short items. The first sequence gets the bits that it gets alone.
TEST_P(AttentionOfManyHeads, SameBitsAlone) {
  for (const int64_t length : kShortLengths) {
    SCOPED_TRACE(length);
    for_each_training([&](const AttentionOptions& options) {
      const auto draw = [&](uint64_t seed) {
        return to(uniform({20, 12, length, 64}, -1, 1, {seed, 0}, {DType::f32, kGpu}), GetParam());
      };
      const std::array<Tensor, 4> all{draw(1), draw(2), draw(3), draw(4)};
      const auto gradients = [&](int64_t batch) {
        const auto part = [&](size_t n) { return contiguous(slice(all[n], 0, 0, batch)); };
        const std::array<Tensor, 3> inputs{parameter(part(0)), parameter(part(1)), parameter(part(2))};
        backward(attention(inputs[0], inputs[1], inputs[2], options), part(3));
        std::vector<Tensor> results;
        for (const Tensor& x : inputs) results.push_back(to(grad(x), kCpu));
        return results;
      };
      const auto first = gradients(20), again = gradients(20), alone = gradients(1);
      for (size_t n = 0; n < first.size(); ++n) {
        const auto bits = [](const Tensor& x) { return to(x, DType::f32).to_vector<float>(); };
        EXPECT_TRUE(bits(first[n]) == bits(again[n])) << n;
        EXPECT_TRUE(bits(slice(first[n], 0, 0, 1)) == bits(alone[n])) << n;
      }
    });
  }
}

/// Whether |a − b| ≤ relative · |b| + absolute for all numbers.
bool are_near(const std::vector<float>& a, const std::vector<float>& b, double relative, double absolute) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](double x, double y) { return std::abs(x - y) <= relative * std::abs(y) + absolute; });
}

/// The gradient of a shared bias is the sum of those of a bias for each head. Their dS do not fit into one buffer.
TEST_P(AttentionOfManyHeads, SharedBias) {
  constexpr int64_t kLength = 2560;
  const auto draw = [&](const Shape& shape, uint64_t seed) {
    return to(uniform(shape, -1, 1, {seed, 0}, {DType::f32, kGpu}), GetParam());
  };
  const auto numbers = [](const Tensor& x) { return to(to(x, kCpu), DType::f32).to_vector<float>(); };
  const double unit = testing::Rounding(GetParam()).unit();
  for (const Shape& shape : {Shape{1, 1, 6, 14}, Shape{6, 1, 6, 14}, Shape{1, 14, 6, 14}, Shape{1, 1, 1, 84}}) {
    SCOPED_TRACE(shape);
    const Shape all{shape[2], shape[3], kLength, kLength}, rows{shape[2], shape[3], kLength, 64};
    const std::array<Tensor, 3> in{parameter(draw(rows, 1)), parameter(draw(rows, 2)), parameter(draw(rows, 3))};
    const Tensor bias = draw({shape[0], shape[1], kLength, kLength}, 5), dy = draw(rows, 4);
    const auto gradients = [&](const Tensor& own_bias) {
      for (const Tensor& x : in) zero_grad(x);
      backward(attention(in[0], in[1], in[2], {.bias = own_bias}), dy);
      return std::array{numbers(grad(in[0])), numbers(grad(in[1])), numbers(grad(in[2]))};
    };
    const Tensor shared = parameter(bias), each = parameter(contiguous(expand(bias, all)));
    const auto got = gradients(shared), expected = gradients(each);
    for (size_t x = 0; x < got.size(); ++x) EXPECT_TRUE(are_near(got[x], expected[x], 2 * unit, 1e-5)) << x;
    Tensor sums = to(grad(each), DType::f32);
    for (int64_t axis : {0, 1}) {
      if (shape[axis] == 1) sums = sum(sums, axis, true);
    }
    EXPECT_TRUE(are_near(numbers(grad(shared)), numbers(sums), unit, 1e-6));
  }
}

}  // namespace
}  // namespace attend
