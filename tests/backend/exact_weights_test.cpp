// Products that must have the same bits: bf16 weights and the same weights in f32; a row alone and in a batch.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>

#include "attend/ops/attention.h"
#include "attend/ops/linear.h"
#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/creation.h"
#include "backend/cpu/matmul/bf16.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::host_values;

/// Runs f with each instruction set of this machine.
template <class F>
void on_every_target(F&& f) {
  const auto dispatch_to = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    dispatch_to(target);
    f();
  }
  dispatch_to(0);
}

std::vector<uint32_t> bits_of(const Tensor& x) {
  std::vector<uint32_t> bits;
  for (const float value : x.to_vector()) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

Tensor first_rows(const Tensor& x, int64_t first, int64_t count) {
  return x.as_strided({count, x.dim(1)}, {x.dim(1), 1}, first * x.dim(1)).clone();
}

struct Sizes {
  int64_t in, out;
};
constexpr Sizes kSizes[]{{1, 5}, {31, 1}, {33, 40}, {257, 33}, {768, 96}, {1300, 70}, {2100, 520}};
// Row counts of each code path: few rows, transposed products, direct products, many rows that share packed weights.
constexpr int64_t kRows[]{1, 2, 3, 4, 7, 8, 9, 16, 17, 48, 255, 256, 300};

TEST(Bf16Weights, HaveTheBitsOfTheSameWeightsInF32) {
  on_every_target([] {
    for (const Sizes& s : kSizes) {
      const Tensor held = in_format(host_values({s.out, s.in}, 2, DType::f32), WeightFormat::bf16);
      const Tensor widened = as_f32(held), bias = host_values({s.out}, 3, DType::f32);
      for (const int64_t rows : kRows) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << s.in << " -> " << s.out);
        const Tensor x = host_values({rows, s.in}, 1, DType::f32);
        EXPECT_EQ(bits_of(linear(x, held, bias)), bits_of(linear(x, widened, bias)));
        EXPECT_EQ(bits_of(linear(x, held)), bits_of(linear(x, widened)));
      }
    }
  });
}

/// Includes denormals, the largest numbers, infinities, NaN and both zeros.
TEST(Bf16Weights, EveryValueIsWidenedExactly) {
  const int64_t rows = 256, in = 256;
  Tensor held = empty({rows, in}, {DType::bf16});
  auto values = held.data<BFloat16>();
  for (size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<uint16_t>(i);
  const Tensor widened = to(held, DType::f32);
  for (const int64_t count : {1, 20, 300}) {
    Tensor x = full({count, in}, 0);
    for (int64_t i = 0; i < count; ++i) x.data<float>()[static_cast<size_t>(i * in + i % in)] = 1;
    const auto ours = linear(x, held).to_vector(), exact = linear(x, widened).to_vector();
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(ours[i] == exact[i] || (std::isnan(ours[i]) && std::isnan(exact[i]))) << i;
    }
  }
}

void expect_rows_alone(const Tensor& weight, const Tensor& bias) {
  const int64_t in = weight.dim(1);
  const Tensor x = host_values({2060, in}, 1, DType::f32);
  const auto all = bits_of(linear(x, weight, bias));
  const auto expect_same = [&](int64_t first, int64_t count) {
    SCOPED_TRACE(::testing::Message() << "rows from " << first << ", " << count << " of them, " << in << " -> "
                                      << weight.dim(0));
    const auto some = bits_of(linear(first_rows(x, first, count), weight, bias));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * weight.dim(0)));
  };
  for (const int64_t count : kRows) expect_same(count % 5, count);
}

TEST(BatchInvariance, ARowOfAProductDoesNotDependOnItsNeighbours) {
  on_every_target([] {
    for (const Sizes& s : {Sizes{33, 40}, Sizes{264, 48}, Sizes{1300, 70}, Sizes{600, 3}}) {
      const Tensor weight = host_values({s.out, s.in}, 2, DType::f32), bias = host_values({s.out}, 3, DType::f32);
      for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16}) {
        SCOPED_TRACE(name_of(format));
        expect_rows_alone(in_format(weight, format), s.in == 33 ? Tensor{} : bias);
      }
    }
  });
}

TEST(BatchInvariance, HoldsForWideAndDeepProducts) {
  // A recorded product would split k differently from 256 rows (out <= 480) and from 2,048 (out > 3,072) on.
  expect_rows_alone(host_values({384, 2100}, 2, DType::f32), {});
  expect_rows_alone(host_values({3400, 1100}, 2, DType::f32), host_values({3400}, 3, DType::f32));
}

TEST(BatchInvariance, HoldsForInt8) {
  expect_rows_alone(in_format(host_values({70, 300}, 2, DType::f32), WeightFormat::int8), {});
}

TEST(BatchInvariance, HoldsIfTheInputIsRounded) {
  for (const cpu::Bf16Unit* unit : cpu::bf16_units_for_test()) {
    SCOPED_TRACE(unit->name);
    cpu::set_bf16_unit_for_test(unit);
    {
      const PrecisionScope precision(Precision::bf16);
      for (const Sizes& s : {Sizes{1100, 70}, Sizes{64, 33}, Sizes{64, 20}}) {
        expect_rows_alone(in_format(host_values({s.out, s.in}, 2, DType::f32), WeightFormat::bf16),
                          host_values({s.out}, 3, DType::f32));
      }
    }
    cpu::set_bf16_unit_for_test(nullptr);
  }
}

/// Packed weights give the bits of weights in place, for rounded rows and for exact ones.
TEST(Bf16Weights, PackedPanelsGiveTheSameBits) {
  const NoGrad no_grad;
  for (const cpu::Bf16Unit* unit : cpu::bf16_units_for_test()) {
    SCOPED_TRACE(unit->name);
    cpu::set_bf16_unit_for_test(unit);
    for (const Sizes& s :
         {Sizes{64, 32}, Sizes{33, 70}, Sizes{1100, 70}, Sizes{300, 1031}, Sizes{31, 40}, Sizes{40, 31}}) {
      const Tensor held = in_format(host_values({s.out, s.in}, 2, DType::f32), WeightFormat::bf16);
      const Tensor bias = host_values({s.out}, 3, DType::f32), packed = held.clone();
      pack_matrix(packed);
      for (const int64_t rows : {1, 7, 8, 9, 17, 31, 32, 33, 64, 95, 300}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << s.in << " -> " << s.out);
        const Tensor x = host_values({rows, s.in}, 1, DType::f32);
        EXPECT_EQ(bits_of(linear(x, packed, bias)), bits_of(linear(x, held, bias)));
        const PrecisionScope precision(Precision::bf16);
        EXPECT_EQ(bits_of(linear(x, packed, bias)), bits_of(linear(x, held, bias)));
        EXPECT_EQ(bits_of(linear(x, packed)), bits_of(linear(x, held)));
      }
    }
    cpu::set_bf16_unit_for_test(nullptr);
  }
}

/// x is rounded only if the precision was requested.
TEST(Bf16Weights, RoundTheInputOnRequest) {
  cpu::set_bf16_unit_for_test(cpu::bf16_units_for_test()[0]);
  const Tensor x = host_values({64, 300}, 1, DType::f32);
  const Tensor held = in_format(host_values({50, 300}, 2, DType::f32), WeightFormat::bf16);
  const Tensor exact = linear(x, held), of_rounded = linear(to(to(x, DType::bf16), DType::f32), held);
  {
    const PrecisionScope precision(Precision::bf16);
    const Tensor rounded = linear(x, held);
    EXPECT_NE(rounded.to_vector(), exact.to_vector());
    testing::expect_close(rounded, of_rounded.to_vector<double>(), 1e-4);
  }
  cpu::set_bf16_unit_for_test(nullptr);
  EXPECT_EQ(bits_of(linear(x, held)), bits_of(exact));
}

/// Compares the last `count` queries alone with the same queries among all.
void expect_queries_alone(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                          std::initializer_list<int64_t> counts) {
  const int64_t all = q.dim(2), width = v.dim(3);
  const auto whole = bits_of(attention(q, k, v, options));
  for (const int64_t count : counts) {
    for (const int64_t last : {all, all - 3}) {
      const auto part = [&](const Tensor& x, int64_t first) {
        return x.as_strided({1, x.dim(1), last - first, x.dim(3)}, x.strides(), first * x.dim(3)).clone();
      };
      const auto some = bits_of(attention(part(q, last - count), part(k, 0), part(v, 0), options));
      for (int64_t head = 0; head < q.dim(1); ++head) {
        const auto first = some.begin() + head * count * width;
        EXPECT_TRUE(std::equal(first, first + count * width, whole.begin() + (head * all + last - count) * width))
            << count << " queries up to " << last << ", head " << head;
      }
    }
  }
}

TEST(BatchInvariance, AQueryDoesNotDependOnItsNeighbours) {
  on_every_target([] {
    for (const int64_t dim : {20, 64, 3}) {
      const int64_t all = 203;
      const Tensor q = host_values({1, 6, all, dim}, 1, DType::f32), k = host_values({1, 2, all, dim}, 2, DType::f32),
                   v = host_values({1, 2, all, dim + 1}, 3, DType::f32);
      const AttentionOptions causal{.causal = true, .alignment = Alignment::bottom_right};
      const auto expect = [&](auto change) {
        AttentionOptions options = causal;
        change(options);
        expect_queries_alone(q, k, v, options, {1, 2, 5, 6, 7, 48, 65, 129});
      };
      expect([](AttentionOptions&) {});
      expect([](AttentionOptions& options) { options.window = 70; });
      expect([](AttentionOptions& options) { options.softcap = 2; });
      expect([](AttentionOptions& options) { options.alibi = host_values({6}, 4, DType::f32); });
    }
  });
}

TEST(BatchInvariance, HoldsForKeysInSeveralChunks) {
  const int64_t all = 4200, dim = 16;
  const Tensor q = host_values({1, 1, all, dim}, 1, DType::f32), k = host_values({1, 1, all, dim}, 2, DType::f32),
               v = host_values({1, 1, all, dim}, 3, DType::f32);
  AttentionOptions options{.causal = true, .alignment = Alignment::bottom_right};
  expect_queries_alone(q, k, v, options, {1, 4, 100});
  options.window = 2500;
  expect_queries_alone(q, k, v, options, {1, 4, 100});
}

TEST(BatchInvariance, AMaskedKeyChangesNothing) {
  on_every_target([] {
    const int64_t keys = 150, dim = 24;
    const Tensor q = host_values({1, 2, 1, dim}, 1, DType::f32);
    const auto run = [&](int64_t padded, int64_t queries) {
      const Tensor k = host_values({1, 2, 400, dim}, 2, DType::f32), v = host_values({1, 2, 400, dim}, 3, DType::f32);
      const auto cut = [&](const Tensor& x) { return x.as_strided({1, 2, padded, dim}, x.strides(), 0).clone(); };
      const Tensor many = q.as_strided({1, 2, queries, dim}, {2 * dim, dim, 0, 1}, 0).clone();
      const auto bits = bits_of(attention(many, cut(k), cut(v), {.lengths = tensor<int64_t>({keys}, {1})}));
      return std::vector<uint32_t>(bits.begin(), bits.begin() + dim);
    };
    for (const int64_t queries : {1, 3, 40}) {
      EXPECT_EQ(run(keys, 1), run(400, queries)) << queries;
      EXPECT_EQ(run(keys, queries), run(180, 1)) << queries;
    }
  });
}

}  // namespace
}  // namespace attend
