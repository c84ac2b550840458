#include <algorithm>

#include "backend/cuda/cuda.h"
#include "backend/cuda/matmul/few_rows.h"
#include "backend/cuda/matmul/finish.cuh"
#include "backend/cuda/matmul/product.h"
#include "backend/cuda/matmul/some_rows.h"
#include "backend/cuda/overlap.cuh"

// Products with weights in the format held for inference, and the rounding of rows to 8 bits.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWidened = int64_t{1} << 24;  // f32 values in the scratch memory of a product: 64 MiB
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

/// Reduces a value over the block; all threads get the result.
template <class Combine>
__device__ int block_reduce(int value, int* shared, Combine combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  __syncthreads();  // the last use of shared is over
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / kWarp; ++warp) value = combine(value, shared[warp]);
  return value;
}

/// Rounds each row to −127 … 127 in steps of max |x| / 127, as int8_steps() in backend/cpu/int8 does, and pads it with
/// zeros. sums may be null.
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float* x, int64_t x_stride, int64_t cols, int8_t* values, int64_t stride, int64_t padded,
                    float* steps, int* sums) {
  __shared__ int shared[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  const float* from = x + row * x_stride;
  int8_t* to = values + row * stride;
  int largest = 0;  // magnitudes compare like integers, with ∞ and NaN above all numbers
  for (int64_t p = threadIdx.x; p < cols; p += kThreads) largest = max(largest, __float_as_int(from[p]) & 0x7fffffff);
  largest = block_reduce(largest, shared, [](int a, int b) { return max(a, b); });

  const float most = __int_as_float(largest);
  float step = __fdiv_rn(most, 127.0f), inverse = __fdiv_rn(127.0f, most);
  if (!isfinite(inverse)) step = inverse = 0;
  if (largest >= 0x7f800000) {
    step = __int_as_float(0x7fc00000);
    inverse = 0;
  }
  int sum = 0;
  for (int64_t p = threadIdx.x; p < padded; p += kThreads) {
    const int value = inverse == 0 || p >= cols ? 0 : __float2int_rn(__fmul_rn(from[p], inverse));
    to[p] = static_cast<int8_t>(value);
    sum += value;
  }
  if (sums != nullptr) sum = block_reduce(sum, shared, [](int a, int b) { return a + b; });
  if (threadIdx.x == 0) {
    steps[row] = step;
    if (sums != nullptr) sums[row] = sum;
  }
}

/// y = sum · (factor of the row · scale of the column) + bias
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const int* sums, const float* factors, const float* scales, const float* bias, int64_t rows,
                  int64_t columns, float* y, int64_t y_stride) {
  const int64_t all = rows * columns;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / columns, column = i % columns;
    y[row * y_stride + column] =
        fmaf(__int2float_rn(sums[i]), __fmul_rn(factors[row], scales[column]), bias != nullptr ? bias[column] : 0.0f);
  }
}

/// Applies what follows a product to its result.
__global__ void __launch_bounds__(kThreads)
    surround_kernel(const float* x, int64_t rows, int64_t columns, Finish finish) {
  const int64_t all = rows * columns;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += int64_t{gridDim.x} * kThreads) {
    finish.put(i / columns, i % columns, x[i]);
  }
}

/// Rows of a table of weights, in the order of an index.
struct TakenRows {
  const void* values = nullptr;
  int64_t stride = 0;
  DType dtype = DType::f32;
  const float* scales = nullptr;
  const int64_t* index = nullptr;
  int64_t index_cols = 1, index_stride = 0;

  static TakenRows of(const WeightMatrix& table, const ConstRows& index) {
    return {table.values.data,
            table.values.stride,
            table.values.dtype,
            table.scales,
            static_cast<const int64_t*>(index.data),
            index.cols,
            index.stride};
  }
  __device__ int64_t row(int64_t i) const { return index[i / index_cols * index_stride + i % index_cols]; }
  __device__ float at(int64_t row, int64_t column) const {
    const int64_t place = row * stride + column;
    if (dtype == DType::f32) return static_cast<const float*>(values)[place];
    if (dtype == DType::bf16) return wide(static_cast<const BFloat16*>(values)[place]);
    const auto value = static_cast<float>(static_cast<const int8_t*>(values)[place]);
    return scales != nullptr ? __fmul_rn(scales[row], value) : value;
  }
};

/// y = the rows of `first`, plus those of `second` unless it is empty.
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(TakenRows first, TakenRows second, float* y, int64_t y_stride, int64_t cols) {
  let_next_start();
  const int64_t i = blockIdx.x, row = first.row(i), other = second.values != nullptr ? second.row(i) : 0;
  for (int64_t p = threadIdx.x; p < cols; p += kThreads) {
    const float value = first.at(row, p);
    y[i * y_stride + p] = second.values != nullptr ? value + second.at(other, p) : value;
  }
}

void take_rows(const TakenRows& first, const TakenRows& second, const Rows& y, const char* name) {
  if (y.numel() == 0) return;
  take_rows_kernel<<<static_cast<unsigned>(y.rows), kThreads, 0, stream()>>>(first, second, static_cast<float*>(y.data),
                                                                             y.stride, y.cols);
  check_launch(name);
}

unsigned blocks_for(int64_t elements) {
  return static_cast<unsigned>(std::clamp<int64_t>((elements + kThreads - 1) / kThreads, 1, 16 * multiprocessors()));
}

/// The rows [first, first + count) of weights as the operand b [in, out] of a product.
Operand weight_operand(const void* data, int64_t stride) { return {.data = data, .stride = stride, .turned = true}; }

const void* row_at(const ConstRows& rows, int64_t row) {
  return static_cast<const std::byte*>(rows.data) + row * rows.stride * static_cast<int64_t>(size_of(rows.dtype));
}

ConstView as_view(const ConstRows& rows) { return {rows.data, rows.dtype, {rows.rows, rows.cols}, {rows.stride, 1}}; }

/// The part of a product that multiplies the rows [first, first + count) of its weights.
WeightProduct part_of(const WeightProduct& product, int64_t first, int64_t count) {
  WeightProduct part = product;
  part.weight.values.data = row_at(product.weight.values, first);
  part.weight.values.rows = count;
  if (part.weight.scales != nullptr) part.weight.scales += first;
  if (part.weight.sums != nullptr) part.weight.sums += first;
  if (part.bias) {
    part.bias.data = static_cast<const float*>(part.bias.data) + first;
    part.bias.cols = count;
  }
  part.y.data = static_cast<float*>(part.y.data) + first;
  part.y.cols = count;
  return part;
}

Product many_rows(const ConstRows& x, const WeightProduct& product) {
  return {.type = x.dtype,
          .c_type = DType::f32,
          .m = x.rows,
          .n = product.y.cols,
          .k = x.cols,
          .a = {.data = x.data, .stride = x.stride},
          .b = weight_operand(product.weight.values.data, product.weight.values.stride),
          .c = product.y.data,
          .c_stride = product.y.stride,
          .bias = product.bias.data};
}

/// f32 products of many rows. bf16 weights are widened in parts; f32 weights are multiplied in the same parts, so that
/// both give the same bits.
void multiply_exact(const ConstRows& x, const WeightProduct& product) {
  const ConstRows& weights = product.weight.values;
  const int64_t most = std::max<int64_t>(128, kWidened / x.cols / 128 * 128), out = product.y.cols;
  const Scratch<float> widened(weights.dtype == DType::bf16 ? std::min(most, out) * x.cols : 0);
  for (int64_t first = 0; first < out; first += most) {
    WeightProduct part = part_of(product, first, std::min(most, out - first));
    if (weights.dtype == DType::bf16) {
      const Rows wide{widened.data(), DType::f32, part.y.cols, x.cols, x.cols};
      copy(as_view(part.weight.values), {wide.data, wide.dtype, {wide.rows, wide.cols}, {wide.stride, 1}});
      part.weight.values = wide;
    }
    if (run_product(many_rows(x, part)) != Outcome::done) multiply_few(x, {&part, 1});
  }
}

/// Products of x rounded to bf16 with bf16 weights.
void multiply_rounded(const ConstRows& x, std::span<const WeightProduct> products) {
  const int64_t stride = (x.cols + 7) / 8 * 8;
  const Scratch<BFloat16> rounded(x.rows * stride);
  const Rows rows{rounded.data(), DType::bf16, x.rows, x.cols, stride};
  copy(as_view(x), {rows.data, rows.dtype, {rows.rows, rows.cols}, {rows.stride, 1}});
  for (const WeightProduct& product : products) {
    if (product.y.cols > 0 && run_product(many_rows(rows, product)) != Outcome::done) multiply_few(x, {&product, 1});
  }
}

void quantize(const ConstRows& x, int8_t* values, int64_t stride, int64_t padded, float* steps, int* sums) {
  quantize_kernel<<<static_cast<unsigned>(x.rows), kThreads, 0, stream()>>>(
      static_cast<const float*>(x.data), x.stride, x.cols, values, stride, padded, steps, sums);
  check_launch("weights.quantize");
}

/// i8 products of many rows with cuBLASLt, in parts of the rows of x whose sums fit into the scratch memory. Returns
/// false, without computing anything, if cuBLASLt does not support the product.
bool multiply_sums(const QuantizedRows& x, const WeightProduct& product) {
  const int64_t out = product.y.cols, most = std::max<int64_t>(64, kWidened / out), at_once = std::min(most, x.rows);
  const Scratch<int32_t> sums(at_once * out);
  for (int64_t first = 0; first < x.rows; first += at_once) {
    const int64_t rows = std::min(at_once, x.rows - first);
    const Outcome outcome = run_product({.type = DType::i8,
                                         .c_type = DType::i32,
                                         .m = rows,
                                         .n = out,
                                         .k = x.cols,
                                         .a = {.data = x.values + first * x.stride, .stride = x.stride},
                                         .b = weight_operand(product.weight.values.data, product.weight.values.stride),
                                         .c = sums.data(),
                                         .c_stride = out});
    if (outcome != Outcome::done && first == 0) return false;
    require<DeviceError>(outcome == Outcome::done, "weights.multiply: cuBLASLt supports only a part of the rows");
    finish_kernel<<<blocks_for(rows * out), kThreads, 0, stream()>>>(
        sums.data(), x.factors + first, product.weight.scales, static_cast<const float*>(product.bias.data), rows, out,
        static_cast<float*>(product.y.data) + first * product.y.stride, product.y.stride);
    check_launch("weights.multiply");
  }
  return true;
}

void multiply_int8(const ConstRows& x, std::span<const WeightProduct> products, bool early) {
  const int64_t stride = std::max<int64_t>(16, (x.cols + 15) / 16 * 16);
  const Scratch<int8_t> values(x.rows * stride);
  const Scratch<float> factors(x.rows);
  quantize(x, values.data(), stride, stride, factors.data(), nullptr);
  const QuantizedRows rows{values.data(), factors.data(), x.rows, x.cols, stride};
  if (x.rows <= kFewRows || x.cols == 0) return multiply_few(rows, products, early);
  for (const WeightProduct& product : products) {
    if (product.y.cols > 0 && !multiply_sums(rows, product)) multiply_few(rows, {&product, 1});
  }
}

bool is_plain(const WeightProduct& product) { return !product.activation && !product.residual && !product.places; }

/// Products of many rows, without what may follow them.
void multiply_many(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  const DType format = products[0].weight.values.dtype;
  if (format == DType::i8) return multiply_int8(x, products, options.early);
  if (options.bf16 && format == DType::bf16) return multiply_rounded(x, products);
  for (const WeightProduct& product : products) {
    if (product.y.cols > 0) multiply_exact(x, product);
  }
}

/// A product of many rows, then what follows it.
void multiply_surrounded(const ConstRows& x, const WeightProduct& product, const WeightProductOptions& options) {
  if (product.y.cols == 0) return;
  const Scratch<float> memory(x.rows * product.y.cols);
  const WeightProduct plain{.weight = product.weight,
                            .bias = product.bias,
                            .y = {memory.data(), DType::f32, x.rows, product.y.cols, product.y.cols}};
  multiply_many(x, {&plain, 1}, options);
  surround_kernel<<<blocks_for(x.rows * product.y.cols), kThreads, 0, stream()>>>(memory.data(), x.rows, product.y.cols,
                                                                                  Finish::of(product));
  check_launch("weights.multiply");
}

bool is_few(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  const bool is_i8 = products[0].weight.values.dtype == DType::i8;
  return x.rows <= kFewRows || x.cols == 0 || (options.batch_invariant && !is_i8);
}

/// Whether tensor cores multiply x, rounded to bf16. With batch_invariant that does not depend on the number of rows.
bool is_some(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  if (!options.bf16 || !can_multiply_some(x, products)) return false;
  return options.batch_invariant || (!is_few(x, products, options) && x.rows <= kSomeRows);
}

/// Products with weights of one format. With batch_invariant all numbers of rows use the kernel for few rows, or one
/// with the same bits.
void multiply_format(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  const DType format = products[0].weight.values.dtype;
  if (is_few(x, products, options)) {
    if (format == DType::i8) return multiply_int8(x, products, options.early);
    if (x.rows > kFewRows && can_multiply_exact(x, products)) return multiply_exact_rows(x, products);
    return multiply_few(x, products, options.early);
  }
  if (std::ranges::all_of(products, is_plain)) return multiply_many(x, products, options);
  for (const WeightProduct& product : products) multiply_surrounded(x, product, options);
}

/// Products with weights of one format, after the norm if there is one.
void multiply_normed(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  const RowNorm* norm = options.norm ? &*options.norm : nullptr;
  if (is_some(x, products, options)) return multiply_some(x, products, norm, options.early);
  if (norm == nullptr) return multiply_format(x, products, options);
  const bool norms_few = can_norm_few(x, products, *norm) && is_few(x, products, options);
  if (norms_few && x.rows <= kFewRows) return multiply_few(x, products, *norm, options.early);
  const Scratch<float> memory(x.numel()), statistics(2 * x.rows);
  const Rows normed{memory.data(), DType::f32, x.rows, x.cols, x.cols};
  if (norms_few) {
    norm_few(x, *norm, normed);
    return multiply_format(normed, products, options);
  }
  const Rows mean{statistics.data(), DType::f32, 1, x.rows, x.rows};
  const Rows rstd{statistics.data() + x.rows, DType::f32, 1, x.rows, x.rows};
  if (norm->rms) {
    rms_norm(x, norm->weight, norm->eps, normed, rstd);
  } else {
    layer_norm(x, norm->weight, norm->bias, norm->eps, normed, mean, rstd);
  }
  multiply_format(normed, products, options);
}

}  // namespace

void multiply_weights(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  if (x.rows == 0) return;
  while (!products.empty()) {  // adjacent products with the same format share launches
    const DType format = products[0].weight.values.dtype;
    size_t count = 1;
    while (count < products.size() && products[count].weight.values.dtype == format) ++count;
    multiply_normed(x, products.first(count), options);
    products = products.subspan(count);
  }
}

void quantize_weights(ConstRows x, Rows values, float* scales, int32_t* sums) {
  if (x.rows > 0) quantize(x, static_cast<int8_t*>(values.data), values.stride, x.cols, scales, sums);
}

void multiply_chain(ConstRows x, std::span<const WeightProduct> stages, const WeightProductOptions& options) {
  if (x.rows == 0) return;
  if (stages.size() == 1) return multiply_weights(x, stages, options);
  WeightProduct product = stages[0];
  const WeightProductOptions later{
      .bf16 = options.bf16, .batch_invariant = options.batch_invariant, .early = options.early};
  const int64_t width = product.weight.values.rows;
  // Tensor cores read the next x in bf16: it is stored that way.
  Rows between{nullptr, DType::bf16, x.rows, width, width};
  const bool rounds = is_some(x, stages.first(1), options) && can_multiply_some(between, stages.subspan(1, 1));
  if (!rounds) between.dtype = DType::f32;
  const Scratch<std::byte> memory(x.rows * width * static_cast<int64_t>(size_of(between.dtype)));
  between.data = memory.data();
  product.y = between;
  multiply_weights(x, {&product, 1}, options);
  multiply_chain(between, stages.subspan(1), later);
}

void take_weight_rows(const WeightMatrix& table, ConstRows index, Rows y) {
  take_rows(TakenRows::of(table, index), {}, y, "weights.take_rows");
}

void embed_tokens(const WeightMatrix& tokens, ConstRows ids, const WeightMatrix& positions, ConstRows places, Rows y) {
  take_rows(TakenRows::of(tokens, ids), TakenRows::of(positions, places), y, "generation.embed");
}

}  // namespace attend::cuda
