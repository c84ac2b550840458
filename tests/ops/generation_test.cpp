#include "ops/generation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "attend/autograd/autograd.h"
#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/attention.h"
#include "attend/ops/embedding.h"
#include "attend/ops/norm.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/creation.h"
#include "backend/graph.h"
#include "ops/trusted_indices.h"
#include "testing/values.h"

namespace attend {
namespace {

Tensor values(const Shape& shape, uint64_t seed) { return testing::host_values(shape, seed, DType::f32); }
Tensor numbers(const std::vector<int64_t>& all, const Shape& shape) { return to(tensor(all, shape), default_device()); }

void expect_near(const Tensor& expected, const Tensor& got, double tolerance, const std::string& what) {
  ASSERT_EQ(expected.shape(), got.shape()) << what;
  const auto a = expected.to_vector<double>(), b = got.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << what << ", element " << i;
}

TEST(Generation, PutRows) {
  const Tensor x = values({3, 5}, 1), places = numbers({4, 0, 2}, {3});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor into = zeros({6, 5}, {dtype});
    put_rows(x, places, into);
    const auto got = into.to_vector<float>(), from = to(x, dtype).to_vector<float>();
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(got[4 * 5 + i], from[i]);
      EXPECT_EQ(got[i], from[5 + i]);
      EXPECT_EQ(got[2 * 5 + i], from[10 + i]);
      EXPECT_EQ(got[5 + i], 0);
    }
  }
}

TEST(Generation, CopyRuns) {
  for (const int64_t width : {3, 8, 768}) {
    const Tensor x = values({300, width}, 2), y = zeros({300, width}),
                 copies = numbers({0, 150, 120, 40, 3, 1}, {2, 3});
    copy_runs(x, copies, 120, y);
    expect_near(slice(x, 0, 0, 120), slice(y, 0, 150, 270), 0, "other");
    expect_near(slice(x, 0, 40, 41), slice(y, 0, 3, 4), 0, "other");
    expect_near(zeros({3, width}), slice(y, 0, 0, 3), 0, "other");
    const Tensor before = x.clone();
    copy_runs(x, copies, 120, x);
    expect_near(slice(before, 0, 0, 3), slice(x, 0, 0, 3), 0, "in place");
    expect_near(slice(before, 0, 40, 41), slice(x, 0, 3, 4), 0, "in place");
    expect_near(slice(before, 0, 4, 120), slice(x, 0, 154, 270), 0, "in place");
  }
}

TEST(Generation, BestLogits) {
  for (const int64_t words : {5, 100, 4096, 50257}) {
    std::vector<float> logits;
    for (int64_t i = 0; i < 3 * words; ++i) {
      logits.push_back(static_cast<float>(philox(3, static_cast<uint64_t>(i), 0)[0] % 64) / 8 - 4);  // many are equal
    }
    logits[1] = -0.0f;
    logits[2] = 0.0f;
    const Tensor x = tensor(logits, {3, words});
    const int64_t count = 9, seen = words - 1;
    const Tensor best = best_logits(x, seen, count);
    const auto got = best.to_vector<float>(), terms = log_softmax_terms(x).to_vector<float>();
    for (size_t row = 0; row < 3; ++row) {
      std::vector<int32_t> order(static_cast<size_t>(seen));
      for (int32_t i = 0; i < seen; ++i) order[static_cast<size_t>(i)] = i;
      const float* own = &logits[row * static_cast<size_t>(words)];
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return own[a] > own[b]; });
      const float* line = &got[row * static_cast<size_t>(2 + 2 * count)];
      EXPECT_EQ(line[0], terms[2 * row]);
      EXPECT_EQ(line[1], terms[2 * row + 1]);
      for (int64_t i = 0; i < count; ++i) {
        const bool exists = i < seen;
        EXPECT_EQ(line[2 + i], exists ? own[order[static_cast<size_t>(i)]] : -INFINITY) << words << " " << i;
        EXPECT_EQ(line[2 + count + i], exists ? static_cast<float>(order[static_cast<size_t>(i)]) : -1) << words;
      }
    }
  }
}

TEST(Generation, BestLogitsIgnoreNan) {
  const Tensor best = best_logits(tensor<float>({1, NAN, -INFINITY, 2}, {1, 4}), 4, 4);
  const auto got = best.to_vector<float>();
  EXPECT_EQ(std::vector<float>(got.begin() + 2, got.end()),
            (std::vector<float>{2, 1, -INFINITY, -INFINITY, 3, 0, 2, -1}));
}

struct StepCase {
  int64_t rows, in, out;
};

/// Norm, product, activation, residual and places against the separate ops.
TEST(Generation, LinearSteps) {
  const NoGrad scope;
  for (const auto& [rows, in, out] : {StepCase{1, 64, 40},
                                      {1, 768, 770},
                                      {2, 768, 48},
                                      {3, 3072, 33},
                                      {8, 768, 64},
                                      {9, 96, 50},
                                      {16, 768, 2304},
                                      {33, 3072, 768},
                                      {64, 768, 3072},
                                      {100, 40, 17},
                                      {12, 520, 70},
                                      {70, 1032, 200},
                                      {128, 1600, 50},
                                      {130, 64, 32},
                                      {5, 33, 7},
                                      {20, 33, 7}}) {
    const Tensor x = values({rows, in}, 4) * 2, residual = values({rows, out}, 6), bias = values({out}, 7);
    const Tensor plain = values({out, in}, 5);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < rows; ++i) order.push_back(2 * (rows - 1 - i));
    const Tensor places = numbers(order, {rows});
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      for (const bool rounds : {false, true}) {
        if (rounds && (format != WeightFormat::bf16 || !has_bf16(default_device()))) continue;
        const PrecisionScope precision(rounds ? Precision::bf16 : Precision::f32, default_device());
        for (const int norm : {0, 1, 2}) {
          const Tensor weight = in_format(plain, format);
          const NormWeights own{
              .weight = values({in}, 8), .bias = norm == 1 ? values({in}, 9) : Tensor{}, .eps = 1e-5, .rms = norm == 2};
          Tensor normed = x;
          if (norm == 1) normed = layer_norm(x, own.weight, own.bias, {.eps = own.eps});
          if (norm == 2) normed = rms_norm(x, own.weight, {.eps = own.eps});
          const Tensor y = linear(normed, weight, bias), z = linear(normed, weight);
          const Tensor into = zeros({2 * rows, out}), narrow = zeros({2 * rows, out}, {DType::bf16});
          const std::vector<LinearStep> steps{{.layer = {weight, bias}, .activation = UnaryKind::gelu_tanh},
                                              {.layer = {weight, {}}, .residual = residual},
                                              {.layer = {weight, bias}, .into = into, .places = places},
                                              {.layer = {weight, bias}, .into = narrow, .places = places}};
          const auto got = linear_steps(x, norm > 0 ? std::optional(own) : std::nullopt, steps);
          const std::string what = std::to_string(rows) + " × " + std::to_string(in) + " → " + std::to_string(out) +
                                   ", " + name_of(format) + (rounds ? " rounded" : "") + ", norm " +
                                   std::to_string(norm);
          // int8 and rounding magnify differences of the norm's last bit to a step of the rounding.
          const double scale = std::sqrt(static_cast<double>(in));
          const double tolerance = (format == WeightFormat::int8 || rounds ? 0.02 : 2e-5) * scale;
          expect_near(gelu_tanh(y), got[0], tolerance, what + ", activation");
          expect_near(z + residual, got[1], tolerance, what + ", residual");
          expect_near(y, take_rows(into, places), tolerance, what + ", places");
          expect_near(y, take_rows(to(narrow, DType::f32), places), tolerance + scale / 32, what + ", narrow");
        }
      }
    }
  }
}

/// A row of a batch has the same bits in a batch of any size of its class.
TEST(Generation, LinearStepsOfSomeRowsDoNotDependOnTheirNumber) {
  if (default_device() == kCpu || std::getenv("ATTEND_CUDA_PLUGIN") != nullptr) GTEST_SKIP() << "needs a GPU";
  const NoGrad scope;
  const PrecisionScope precision(Precision::bf16, default_device());
  for (const auto& [most, in, out] : {StepCase{64, 768, 768}, {128, 768, 2304}, {100, 3072, 768}, {100, 200, 96}}) {
    const Tensor x = values({most, in}, 4), weight = in_format(values({out, in}, 5), WeightFormat::bf16);
    const NormWeights own{.weight = values({in}, 8), .bias = values({in}, 9), .eps = 1e-5, .rms = false};
    const LinearStep step{.layer = {weight, {}}};
    for (const auto& norm : {std::optional<NormWeights>(), std::optional(own)}) {
      const Tensor all = linear_steps(x, norm, {&step, 1})[0];
      for (const int64_t rows : {9, 20, 40, 63}) {
        const std::string what = std::to_string(rows) + " of " + std::to_string(most) + " × " + std::to_string(in);
        expect_near(slice(all, 0, 0, rows), linear_steps(slice(x, 0, 0, rows), norm, {&step, 1})[0], 0, what);
        const int64_t last = most - rows;
        expect_near(slice(all, 0, last, most), linear_steps(slice(x, 0, last, most), norm, {&step, 1})[0], 0, what);
      }
    }
  }
}

/// One query per row over caches of different lengths, which the device reads.
TEST(Generation, AttentionOverTheCapacity) {
  const NoGrad scope;
  for (const int64_t capacity : {64, 256, 1024}) {
    for (const int64_t heads : {2, 4}) {
      const std::vector<int64_t> lengths{1, 33, 64, capacity, capacity - 1};
      const Tensor q = values({5, heads, 1, 64}, 1), k = values({5, 2, capacity, 64}, 2),
                   v = values({5, 2, capacity, 64}, 3);
      for (const int64_t window : {0, 20}) {
        const Tensor all = attention(
            q, k, v, {.alignment = Alignment::bottom_right, .window = window, .lengths = numbers(lengths, {5})});
        for (int64_t row = 0; row < 5; ++row) {
          const auto part = [&](const Tensor& x) {
            return slice(slice(x, 0, row, row + 1), 2, 0, lengths[static_cast<size_t>(row)]);
          };
          const Tensor alone = attention(slice(q, 0, row, row + 1), part(k), part(v),
                                         {.alignment = Alignment::bottom_right, .window = window});
          expect_near(alone, slice(all, 0, row, row + 1), 1e-5, "row " + std::to_string(row));
        }
      }
    }
  }
}

TEST(Generation, EmbedStep) {
  const NoGrad scope;
  const Tensor ids = numbers({3, 0, 6, 3}, {4}), places = numbers({1, 4, 0, 2}, {4});
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    const Tensor tokens = in_format(values({7, 40}, 1), format), table = in_format(values({5, 40}, 2), format);
    expect_near(embedding(ids, tokens), embed_step(ids, tokens, places, {}), 0, name_of(format));
    expect_near(embedding(ids, tokens) + embedding(places, table), embed_step(ids, tokens, places, table), 0,
                name_of(format));
  }
}

/// Two products in a chain against the same two one by one.
TEST(Generation, LinearChain) {
  const NoGrad scope;
  for (const auto& [rows, in, out] :
       {StepCase{1, 64, 256}, {3, 768, 48}, {20, 96, 50}, {64, 768, 3072}, {130, 64, 40}}) {
    const Tensor x = values({rows, 1, in}, 4), bias = values({out}, 7);
    const NormWeights norm{.weight = values({in}, 8), .bias = values({in}, 9), .eps = 1e-5, .rms = false};
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      for (const bool rounds : {false, true}) {
        if (rounds && (format != WeightFormat::bf16 || !has_bf16(default_device()))) continue;
        const PrecisionScope precision(rounds ? Precision::bf16 : Precision::f32, default_device());
        const std::vector<LinearStep> stages{
            {.layer = {in_format(values({out, in}, 5), format), bias}, .activation = UnaryKind::gelu},
            {.layer = {in_format(values({in, out}, 6), format), {}}, .residual = x}};
        const Tensor between = linear_steps(x, norm, std::span(stages).first(1))[0];
        const Tensor expected = linear_steps(between, std::nullopt, std::span(stages).subspan(1))[0];
        expect_near(expected, linear_chain(x, norm, stages), 0, std::to_string(rows) + ", " + name_of(format));
      }
    }
  }
}

/// Logits: a single product with very many columns.
TEST(Generation, ManyColumns) {
  if (!has_bf16(default_device())) GTEST_SKIP() << "no bf16 products";
  const NoGrad scope;
  const PrecisionScope precision(Precision::bf16, default_device());
  const int64_t in = 256, out = 16391;
  const Tensor x = values({100, in}, 4), weight = in_format(values({out, in}, 5), WeightFormat::bf16);
  const NormWeights norm{.weight = values({in}, 8), .bias = values({in}, 9), .eps = 1e-5, .rms = false};
  const LinearStep step{.layer = {weight, values({out}, 7)}};
  const Tensor all = linear_steps(x, norm, {&step, 1})[0];
  const Tensor normed = to(to(layer_norm(x, norm.weight, norm.bias, {.eps = norm.eps}), DType::bf16), DType::f32);
  expect_near(linear(normed, weight, step.layer.bias), all, 0.05, "all");
  if (default_device() == kCpu || std::getenv("ATTEND_CUDA_PLUGIN") != nullptr) return;
  for (const int64_t rows : {9, 33, 64}) {
    expect_near(slice(all, 0, 0, rows), linear_steps(slice(x, 0, 0, rows), norm, {&step, 1})[0], 0, "rows");
  }
}

/// The kernel for a bf16 cache. What lies behind a row's last key is NaN.
TEST(Generation, AttentionOverABf16Cache) {
  if (default_device() == kCpu) GTEST_SKIP() << "needs a GPU";
  const NoGrad scope;
  for (const int64_t dim : {64, 128}) {
    for (const int64_t capacity : {128, 256, 1024}) {
      for (const int64_t heads : {2, 6}) {
        const std::vector<int64_t> lengths{1, 33, 64, capacity, capacity - 1};
        const Tensor q = values({5, heads, 1, dim}, 1);
        const auto cache = [&](uint64_t seed) {
          std::vector<float> all = values({5, capacity, 2, dim}, seed).to_vector<float>();
          const auto row = static_cast<size_t>(2 * dim);
          for (size_t i = 0; i < all.size(); ++i) {
            if (static_cast<int64_t>(i / row) % capacity >= lengths[i / row / static_cast<size_t>(capacity)]) {
              all[i] = NAN;
            }
          }
          return transpose(to(to(tensor(all, {5, capacity, 2, dim}), DType::bf16), default_device()), 1, 2);
        };
        const Tensor k = cache(2), v = cache(3);
        for (const int64_t window : {0, 20}) {
          const Tensor all = attention(
              q, k, v, {.alignment = Alignment::bottom_right, .window = window, .lengths = numbers(lengths, {5})});
          for (int64_t row = 0; row < 5; ++row) {
            const int64_t length = lengths[static_cast<size_t>(row)];
            const auto part = [&](const Tensor& x) {
              return to(slice(slice(x, 0, row, row + 1), 2, 0, length), DType::f32);
            };
            const auto own = [&](const Tensor& x) { return slice(x, 0, row, row + 1); };
            const Tensor expected =
                attention(own(q), part(k), part(v), {.alignment = Alignment::bottom_right, .window = window});
            const Tensor alone =
                attention(own(q), own(k), own(v),
                          {.alignment = Alignment::bottom_right, .window = window, .lengths = numbers({length}, {1})});
            expect_near(expected, own(all), 1e-5, "row " + std::to_string(row));
            expect_near(alone, own(all), 0, "alone, row " + std::to_string(row));
          }
        }
      }
    }
  }
}

/// Layers whose kernels overlap in a graph: the same bits as kernel by kernel, in each of many launches.
TEST(Generation, OverlappingKernelsOfAGraph) {
  if (default_device() == kCpu || std::getenv("ATTEND_CUDA_PLUGIN") != nullptr) GTEST_SKIP() << "needs a GPU";
  const NoGrad scope;
  const int64_t dim = 768, heads = 12, capacity = 256, layers = 6;
  for (const int64_t rows : {1, 2, 5, 20, 64}) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      const bool rounds = format == WeightFormat::bf16;
      const PrecisionScope precision(rounds ? Precision::bf16 : Precision::f32, default_device());
      std::vector<int64_t> lengths, order;
      for (int64_t i = 0; i < rows; ++i) {
        lengths.push_back(1 + (37 * i + 100) % capacity);
        order.push_back(i * capacity + lengths.back() - 1);
      }
      const Tensor places = numbers(order, {rows}), known = numbers(lengths, {rows});
      const auto matrix = [&](int64_t out, int64_t in, uint64_t seed) {
        return in_format(values({out, in}, seed) * 0.05, format);
      };
      const NormWeights norm{.weight = values({dim}, 8), .bias = values({dim}, 9), .eps = 1e-5, .rms = false};
      std::vector<Tensor> weights, caches;
      for (int64_t i = 0; i < layers; ++i) {
        const auto seed = static_cast<uint64_t>(10 * i);
        for (uint64_t n = 0; n < 4; ++n) weights.push_back(matrix(dim, dim, seed + n));
        weights.push_back(matrix(4 * dim, dim, seed + 4));
        weights.push_back(matrix(dim, 4 * dim, seed + 5));
        for (uint64_t n = 6; n < 8; ++n) {
          caches.push_back(to(values({rows * capacity, dim}, seed + n), rounds ? DType::bf16 : DType::f32));
        }
      }
      const std::vector<Tensor> inputs{values({rows, dim}, 3), values({rows, dim}, 4) * 2};
      const Tensor input = inputs[0].clone();
      const TrustedIndices trusted;
      const auto run = [&] {
        Tensor x = input;
        for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
          const Tensor *own = &weights[6 * i], &keys = caches[2 * i], &those = caches[2 * i + 1];
          const std::vector<LinearStep> steps{{.layer = {own[0], {}}},
                                              {.layer = {own[1], {}}, .into = keys, .places = places},
                                              {.layer = {own[2], {}}, .into = those, .places = places}};
          const Tensor q = reshape(linear_steps(x, norm, steps)[0], {rows, heads, 1, -1});
          const auto of_heads = [&](const Tensor& cache) {
            return transpose(reshape(cache, {rows, capacity, heads, -1}), 1, 2);
          };
          const Tensor attended =
              attention(q, of_heads(keys), of_heads(those), {.alignment = Alignment::bottom_right, .lengths = known});
          const LinearStep output{.layer = {own[3], {}}, .residual = x};
          x = linear_steps(reshape(attended, {rows, dim}), std::nullopt, {&output, 1})[0];
          const std::vector<LinearStep> stages{{.layer = {own[4], {}}, .activation = UnaryKind::gelu},
                                               {.layer = {own[5], {}}, .residual = x}};
          x = linear_chain(x, norm, stages);
        }
        return x;
      };
      std::vector<Tensor> expected;
      for (const Tensor& one : inputs) {
        copy_values(one, input);
        expected.push_back(run());
      }
      const Tensor got = zeros({rows, dim});
      const DeviceGraph graph = DeviceGraph::capture(default_device(), [&] { copy_values(run(), got); });
      for (size_t launch = 0; launch < 20; ++launch) {  // other numbers each time, which would show a stale read
        copy_values(inputs[launch % 2], input);
        graph.launch();
        expect_near(expected[launch % 2], got, 0, std::to_string(rows) + " rows, " + name_of(format));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace attend
