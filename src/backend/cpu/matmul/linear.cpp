#include "backend/cpu/matmul/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "backend/cpu/cpu.h"
#include "backend/cpu/int8/int8.h"
#include "backend/cpu/matmul/bf16_panels.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/panels.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul/linear.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/matmul/linear_few-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

void MultiplyFewF32(ConstRows x, std::span<const WeightProduct> products) { MultiplyFew<PlainRows>(x, products); }
void MultiplyFewBf16(ConstRows x, std::span<const WeightProduct> products) { MultiplyFew<Bf16Rows>(x, products); }
/// Up to this many rows of x, MultiplyFew is faster than sums in lanes of x.
int64_t MostFewRows() { return 2 * kFewAtOnce; }

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
namespace {

HWY_EXPORT(MultiplyFewF32);
HWY_EXPORT(MultiplyFewBf16);
HWY_EXPORT(MostFewRows);

constexpr int64_t kSomeRows = 256;  // upper limit of multiply_some; its lower limit is MostFewRows

const float* as_float(const void* data) { return static_cast<const float*>(data); }

/// The weights as an operand of a product: f32 in place, or bf16 to be widened during packing.
struct Operand {
  explicit Operand(const ConstRows& weights)
      : f32(weights.dtype == DType::bf16 ? nullptr : as_float(weights.data)),
        bf16(weights.dtype == DType::bf16 ? static_cast<const BFloat16*>(weights.data) : nullptr) {}
  const float* f32;
  const BFloat16* bf16;
};

/// The product for more than MostFewRows but fewer than kSomeRows rows: yᵀ = weight · xᵀ. It packs x and reads the
/// weights in place; with 32 rows, packing the weights took half of the time.
void multiply_some(ConstRows x, const WeightProduct& product) {
  const ConstRows& weights = product.weight.values;
  const Operand held(weights);
  multiply_f32({.m = product.y.cols,
                .n = x.rows,
                .k = x.cols,
                .a = held.f32,
                .a_row = weights.stride,
                .a_step = 1,
                .b = as_float(x.data),
                .b_step = 1,
                .b_col = x.stride,
                .c = static_cast<float*>(product.y.data),
                .c_row = product.y.stride,
                .bias = as_float(product.bias.data),
                .turned = true,
                .invariant = true,
                .a_bf16 = held.bf16});
}

/// The product for many rows. It packs the weights; bf16 weights become f32 there unless x is rounded to bf16, too.
MatrixProduct<float> many_rows(ConstRows x, const WeightProduct& product) {
  const ConstRows& weights = product.weight.values;
  const Operand held(weights);
  return {.m = x.rows,
          .n = product.y.cols,
          .k = x.cols,
          .a = as_float(x.data),
          .a_row = x.stride,
          .a_step = 1,
          .b = held.f32,
          .b_step = 1,
          .b_col = weights.stride,
          .c = static_cast<float*>(product.y.data),
          .c_row = product.y.stride,
          .bias = as_float(product.bias.data),
          .invariant = true,
          .b_bf16 = held.bf16};
}

/// The product of rows rounded to bf16. Returns false, without computing anything, if f32 is used instead.
bool multiply_rounded(ConstRows x, const WeightProduct& product) {
  MatrixProduct<float> many = many_rows(x, product);
  many.bf16 = true;
  return multiply_bf16(many);
}

bool has_panels(const WeightProduct& product) {
  return product.weight.panels != nullptr && !are_bf16_panels(product.weight);
}

/// Every sum is cut by the length of a row of x alone: a row's bits do not depend on the number of rows.
void multiply_format(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  const DType format = products[0].weight.values.dtype;
  if (format == DType::i8) return multiply_int8(x, products);
  if (options.bf16 && format == DType::bf16) {
    if (multiply_bf16_panels(x, products) || multiply_few_bf16(x, products)) return;
    for (const WeightProduct& product : products) {
      if (!multiply_rounded(x, product)) multiply_format(x, {&product, 1}, {});
    }
  } else if (uses_panels(x.rows) && std::ranges::all_of(products, has_panels)) {
    multiply_panels(x, products);
  } else if (x.rows > HWY_DYNAMIC_DISPATCH(MostFewRows)()) {
    for (const WeightProduct& product : products) {
      if (x.rows < kSomeRows && x.cols > 0)
        multiply_some(x, product);
      else
        multiply_f32(many_rows(x, product));
    }
  } else if (format == DType::bf16) {
    HWY_DYNAMIC_DISPATCH(MultiplyFewBf16)(x, products);
  } else {
    HWY_DYNAMIC_DISPATCH(MultiplyFewF32)(x, products);
  }
}

}  // namespace

WeightRows::WeightRows(std::span<const WeightProduct> products, int64_t unit, bool packed)
    : packed_(packed), stretches_(static_cast<size_t>(threads())) {
  const auto row_bytes = [](const WeightProduct& product) {
    const ConstRows& values = product.weight.values;
    return std::max<int64_t>(1, values.cols * static_cast<int64_t>(size_of(values.dtype)));
  };
  int64_t all = 0, done = 0;
  for (const WeightProduct& product : products) all += product.y.cols * row_bytes(product);
  size_t stretch = 0;
  for (const WeightProduct& product : products) {
    for (int64_t first = 0; first < product.y.cols; first = chunks_.back().last) {
      const int64_t end = all * (static_cast<int64_t>(stretch) + 1) / stretches();
      const int64_t bytes = std::clamp((end - done) / 2, kLeastChunk, kMostChunk);
      const int64_t rows = std::max<int64_t>(1, bytes / row_bytes(product) / unit) * unit;
      chunks_.push_back({&product, first, std::min(first + rows, product.y.cols)});
      done += (chunks_.back().last - first) * row_bytes(product);
      stretches_[stretch].end = std::ssize(chunks_);
      if (done >= end && stretch + 1 < stretches_.size()) stretches_[++stretch].next = std::ssize(chunks_);
    }
  }
}

std::vector<const void*> WeightRows::starts() const {
  std::vector<const void*> starts;
  for (const Stretch& stretch : stretches_) {
    const int64_t first = stretch.next.load();
    if (first >= stretch.end) break;
    const Chunk& chunk = chunks_[static_cast<size_t>(first)];
    const ConstRows& values = chunk.product->weight.values;
    const void* data = packed_ ? chunk.product->weight.panels : values.data;
    const int64_t row = packed_ ? values.cols : values.stride;
    starts.push_back(static_cast<const char*>(data) + chunk.first * row * static_cast<int64_t>(size_of(values.dtype)));
  }
  return starts;
}

void fetch_next_weights(const std::vector<const void*>& starts) {
  static std::mutex mutex;
  static std::unordered_map<const void*, std::vector<const void*>> after;
  static constexpr size_t kMostKnown = 1 << 14;
  thread_local const void* before = nullptr;
  if (starts.size() < 2) return;  // there is no idle worker
  std::lock_guard lock(mutex);
  if (after.size() > kMostKnown) after.clear();
  after[before] = starts;
  before = starts[0];
  const auto next = after.find(before);
  if (next == after.end()) return;
  for (size_t worker = 1; worker < next->second.size(); ++worker) {
    set_idle_memory(static_cast<int>(worker), next->second[worker], kFetchedAhead);
  }
}

void multiply_formats(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  if (x.rows == 0) return;
  // Adjacent products with the same weight format are computed together.
  while (!products.empty()) {
    const DType format = products[0].weight.values.dtype;
    size_t count = 1;
    while (count < products.size() && products[count].weight.values.dtype == format) ++count;
    multiply_format(x, products.first(count), options);
    products = products.subspan(count);
  }
}

void quantize_weights(ConstRows x, Rows values, float* scales, int32_t* sums) {
  parallel_ranges(x.rows, kGrain / std::max<int64_t>(1, x.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = static_cast<const float*>(x.data) + i * x.stride;
      auto* to = static_cast<int8_t*>(values.data) + i * values.stride;
      const auto [step, inverse] = int8_steps(int8_largest_bits(from, x.cols));
      int32_t sum = 0;
      for (int64_t p = 0; p < x.cols; ++p) {
        to[p] = inverse == 0 ? int8_t{0} : static_cast<int8_t>(std::lrintf(from[p] * inverse));
        sum += to[p];
      }
      scales[i] = step;
      sums[i] = sum;
    }
  });
}

void take_weight_rows(const WeightMatrix& table, ConstRows index, Rows y) {
  const auto row_at = [&](int64_t i) {
    return static_cast<const int64_t*>(index.data)[i / index.cols * index.stride + i % index.cols];
  };
  const int64_t stride = table.values.stride;
  parallel_ranges(y.rows, kGrain / std::max<int64_t>(1, y.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* to = static_cast<float*>(y.data) + i * y.stride;
      const int64_t row = row_at(i);
      if (table.values.dtype == DType::i8) {
        const auto* from = static_cast<const int8_t*>(table.values.data) + row * stride;
        for (int64_t p = 0; p < y.cols; ++p) to[p] = table.scales[row] * static_cast<float>(from[p]);
      } else if (table.values.dtype == DType::bf16) {
        const auto* from = static_cast<const BFloat16*>(table.values.data) + row * stride;
        for (int64_t p = 0; p < y.cols; ++p) to[p] = to_float(from[p]);
      } else {
        std::copy_n(static_cast<const float*>(table.values.data) + row * stride, y.cols, to);
      }
    }
  });
}

}  // namespace attend::cpu
#endif
