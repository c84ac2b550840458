#pragma once

#include <cstddef>
#include <span>

#include "attend/base/device.h"
#include "attend/base/random.h"
#include "attend/base/view.h"

// What a device must provide. Ops check shapes and dtypes, then call these; kernels trust what they are given. A null
// entry means "not on this device" and is reported by name (see kernels()). Every kernel takes f32 and f64 and is
// deterministic: the same inputs give the same bits on any number of threads.
namespace attend {

/// A kernel pointer that throws DeviceError with its own name when the device does not have it.
template <class Signature>
class Kernel;
template <class Result, class... Args>
class Kernel<Result(Args...)> {
 public:
  constexpr explicit Kernel(const char* name) : name_(name) {}            // absent
  constexpr Kernel(Result (*function)(Args...)) : function_(function) {}  // NOLINT(google-explicit-constructor)
  Result operator()(Args... args) const {
    require<DeviceError>(function_ != nullptr, name_, ": this device has no such kernel");
    return function_(args...);
  }

 private:  // this pair, and nothing else: tests/backend/table_test.cpp reads a table as an array of them
  Result (*function_)(Args...) = nullptr;
  const char* name_ = "";
};

struct MemoryKernels {
  Kernel<void*(size_t bytes)> allocate{"memory.allocate"};  ///< 64-byte aligned; throws DeviceError when there is none
  Kernel<void(void* data, size_t bytes)> release{"memory.release"};
  Kernel<void(void* to, const void* from_host, size_t bytes)> upload{"memory.upload"};
  Kernel<void(void* to_host, const void* from, size_t bytes)> download{"memory.download"};
  Kernel<size_t()> live_bytes{"memory.live_bytes"};  ///< held by tensors and kernels' scratch
  Kernel<size_t()> peak_bytes{"memory.peak_bytes"};  ///< the largest live_bytes since reset_peak
  Kernel<void()> reset_peak{"memory.reset_peak"};
};

enum class UnaryKind { relu, gelu, gelu_tanh, silu, tanh, sigmoid, exp, log };
enum class BinaryKind { add, subtract, multiply, divide };

struct ElementwiseKernels {
  Kernel<void(ConstView x, View y)> copy{"elementwise.copy"};  ///< any strides, converting between dtypes
  Kernel<void(View y, double value)> fill{"elementwise.fill"};
  Kernel<void(ConstView x, double scale, double shift, View y)> affine{
      "elementwise.affine"};                                               ///< y = scale · x + shift
  Kernel<void(ConstView x, View y)> accumulate{"elementwise.accumulate"};  ///< y += x; x may broadcast (stride 0)
  Kernel<void(BinaryKind kind, ConstView a, ConstView b, View y)> binary{
      "elementwise.binary"};  ///< a, b broadcast by stride 0
  Kernel<void(UnaryKind kind, ConstRows x, Rows y)> unary{"elementwise.unary"};
  Kernel<void(UnaryKind kind, ConstRows dy, ConstRows x, Rows dx)> unary_backward{
      "elementwise.unary_backward"};  ///< dx = dy · f'(x)
};

struct ReduceKernels {
  Kernel<void(ConstView x, View y)> sum{"reduce.sum"};  ///< y has x's rank, size 1 on the summed axes
  Kernel<double(ConstRows x)> sum_of_squares{"reduce.sum_of_squares"};
};

struct MatmulOptions {
  bool accumulate = false;  ///< c += a b instead of c = a b
  ConstView bias;           ///< [n], added to each row; empty for none
  bool bf16 = false;        ///< round f32 operands to bf16 and add up in f32; small products may stay exact
};
inline constexpr const char* kNoBf16 =
    "bfloat16 products need a CPU where they are faster than float32: AMX, or AVX512-BF16 of an AMD processor";
struct MatmulKernels {
  /// c[…, m, n] = a[…, m, k] · b[…, k, n]; leading axes equal or stride 0; any strides on a and b, unit last stride on
  /// c.
  Kernel<void(ConstView a, ConstView b, View c, const MatmulOptions& options)> multiply{"matmul.multiply"};
  Kernel<bool()> has_bf16{"matmul.has_bf16"};  ///< whether MatmulOptions::bf16 may be asked for
};

/// Weights as they are held for inference, [out, in] with contiguous rows: f32, bf16, or i8 where row j stands for
/// scales[j] · values[j].
struct WeightMatrix {
  ConstRows values;
  const float* scales = nullptr;  ///< of i8: one for each row
  const int32_t* sums = nullptr;  ///< of i8: the sum of each row's values
};
/// One of several products of the same x.
struct WeightProduct {
  WeightMatrix weight;
  ConstRows bias;  ///< f32 [out], or empty
  Rows y;          ///< f32 [rows, out]
};
struct WeightProductOptions {
  bool bf16 = false;             ///< round x to bf16 where the weights are bf16; small products may stay exact
  bool batch_invariant = false;  ///< a row of y has the same bits however many rows x has
};
struct WeightKernels {
  /// y = x · weightᵀ + bias for each product; x is f32 [rows, in]. bf16 weights are widened on the way and give the
  /// bits that the same weights in f32 give. With i8 each row of x is rounded to 255 steps of max |x| / 127 first, and
  /// the sums are exact.
  Kernel<void(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options)> multiply{
      "weights.multiply"};
  /// Rounds rows of f32 to i8, in steps of max |x| / 127, and sums the steps up. A row with NaN or infinity has scale
  /// NaN.
  Kernel<void(ConstRows x, Rows values, float* scales, int32_t* sums)> quantize{"weights.quantize"};
  /// y[i] = row index[i] of the table, in f32.
  Kernel<void(const WeightMatrix& table, ConstRows index, Rows y)> take_rows{"weights.take_rows"};
};

struct SoftmaxKernels {
  Kernel<void(ConstRows x, Rows y)> forward{"softmax.forward"};
  Kernel<void(ConstRows dy, ConstRows y, Rows dx)> backward{"softmax.backward"};
  Kernel<void(ConstRows x, Rows y)> log_forward{"softmax.log_forward"};
  Kernel<void(ConstRows dy, ConstRows y, Rows dx)> log_backward{"softmax.log_backward"};
  /// terms [rows, 2]: what log_forward subtracts from a row, one after the other.
  Kernel<void(ConstRows x, Rows terms)> log_terms{"softmax.log_terms"};
};

struct NormKernels {
  /// y = (x − mean) · rstd · weight + bias; mean and rstd are [rows]; weight and bias [cols] or empty.
  Kernel<void(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd)> layer_forward{
      "norm.layer_forward"};
  Kernel<void(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, Rows dx, Rows dweight,
              Rows dbias)>
      layer_backward{"norm.layer_backward"};  ///< any of dx, dweight, dbias may be empty
  Kernel<void(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd)> rms_forward{"norm.rms_forward"};
  Kernel<void(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, Rows dx, Rows dweight)> rms_backward{
      "norm.rms_backward"};
};

struct CrossEntropyOptions {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
};
struct CrossEntropyKernels {
  /// Mean over the rows that are not ignored, and each row's log-sum-exp. target is i64 [rows]. Returns that count.
  Kernel<int64_t(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows loss, Rows lse)> forward{
      "cross_entropy.forward"};
  /// dloss is one element; dx = dloss / count · (softmax − smoothed target), 0 on ignored rows. dx may be x itself.
  Kernel<void(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, int64_t count,
              const CrossEntropyOptions& options, Rows dx)>
      backward{"cross_entropy.backward"};
};

struct IndexKernels {
  /// Throws ShapeError naming `op` unless all of index (i64) are in [0, limit).
  Kernel<void(ConstRows index, int64_t limit, const char* op)> check{"index.check"};
  Kernel<void(ConstRows table, ConstRows index, Rows y)> take_rows{"index.take_rows"};  ///< y[i] = table[index[i]]
  Kernel<void(ConstRows dy, ConstRows index, Rows dtable)> take_rows_backward{
      "index.take_rows_backward"};                                                      ///< dtable[index[i]] += dy[i]
  Kernel<void(ConstRows x, ConstRows index, Rows y)> gather_last{"index.gather_last"};  ///< y[r, i] = x[r, index[r, i]]
  Kernel<void(ConstRows dy, ConstRows index, Rows dx)> gather_last_backward{
      "index.gather_last_backward"};  ///< dx[r, index[r, i]] += dy[r, i]
};

/// Any element can be had alone: element i (row-major) uses word w_i = word i mod 4 of philox(seed, i / 4, stream).
/// Values are computed in double precision and rounded, so f32 and f64 agree.
struct RandomKernels {
  /// low + (high − low) · uniform_from_bits(w_i); `high` itself only by rounding.
  Kernel<void(RandomStream stream, double low, double high, Rows y)> uniform{"random.uniform"};
  /// mean + deviation · √(−2 ln ((a + ½) / 2³²)) · cos (even i) or sin (odd i) of 2π b / 2³², where (a, b) are the
  /// words of the even element of i's pair and of the odd one.
  Kernel<void(RandomStream stream, double mean, double deviation, Rows y)> normal{"random.normal"};
  /// y = x / (1 − p) where w_i >= drop_threshold(p), else 0; its own backward.
  Kernel<void(RandomStream stream, double p, ConstRows x, Rows y)> dropout{"random.dropout"};
};

enum class RotaryLayout { half, interleaved };
struct RotaryOptions {
  double base = 10000.0;
  int64_t offset = 0;  ///< position of the first row
  RotaryLayout layout = RotaryLayout::half;
  int64_t dims = 0;      ///< how many leading features of each row turn; 0 = all
  bool inverse = false;  ///< turn back: the gradient
};
struct PositionKernels {
  /// x and y are […, length, dim]; `frequencies` (f64, dims / 2) replaces base's when given; `positions` (i64,
  /// [length]) replaces offset + row when given.
  Kernel<void(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y)> rotary{
      "position.rotary"};
};

/// One attention call, forward or backward: see attend/ops/attention.h for what each option means.
struct AttentionProblem {
  ConstView q, k, v;    ///< [batch, heads, length, dim], unit last stride
  ConstView mask;       ///< u8 or boolean, broadcast to [batch, heads, q, k] by stride 0; empty: all may attend
  ConstView bias;       ///< q's dtype, broadcast likewise; empty: none
  ConstView lengths;    ///< i64 [batch]: how many keys are real; empty: all
  ConstView q_offsets;  ///< i64 [sequences + 1] into the length axis (batch must be 1); empty: not packed
  ConstView k_offsets;  ///< likewise for keys
  ConstView alibi;      ///< q's dtype, [heads]; empty: none
  bool causal = false;
  bool bottom_right = false;  ///< query i stands at position i + (keys − queries) instead of i
  int64_t window = 0;         ///< 0: no window
  double scale = 1;
  double softcap = 0;  ///< 0: none
  double dropout = 0;
  RandomStream random;
  bool batch_invariant = false;  ///< a query has the same bits however many queries stand beside it
};
struct AttentionGradients {
  ConstView y, dy, lse;  ///< the forward's results and the upstream gradient
  View dq, dk, dv;       ///< each may be empty; written, not accumulated
  View dbias;            ///< bias's own (unbroadcast) shape, with stride 0 where it was broadcast; may be empty
};
/// Which weights are wanted: rows × heads of the full [batch, heads, q, k], all of each row or its largest few.
struct AttentionSelection {
  ConstView heads;  ///< i64, chosen head numbers
  ConstView rows;   ///< i64, chosen query rows
  int64_t top = 0;  ///< 0: whole rows
};
struct AttentionKernels {
  /// lse: q's dtype, [batch, heads, q].
  Kernel<void(const AttentionProblem& problem, View y, View lse)> forward{"attention.forward"};
  Kernel<void(const AttentionProblem& problem, const AttentionGradients& gradients)> backward{"attention.backward"};
  /// values: [batch, chosen heads, chosen rows, k or top], what the forward pass multiplied v by; with top in falling
  /// order, and places (i64, same shape) their keys. Working memory does not grow with the number of rows.
  Kernel<void(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
              View places)>
      weights{"attention.weights"};
};

struct AdamOptions {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: decay the parameter itself rather than the gradient
  int64_t step = 1;        ///< counted from 1
  double grad_scale = 1;   ///< multiplies the gradient (clipping)
};
struct SgdOptions {
  double lr = 0, momentum = 0, weight_decay = 0, dampening = 0;
  bool nesterov = false;
  bool first = false;  ///< the buffer has no history yet
  double grad_scale = 1;
};
struct OptimKernels {
  Kernel<void(ConstRows grad, const AdamOptions& options, Rows param, Rows m, Rows v)> adam{"optim.adam"};
  Kernel<void(ConstRows grad, const SgdOptions& options, Rows param, Rows buffer)> sgd{
      "optim.sgd"};  ///< buffer empty: no momentum
};

struct Kernels {
  MemoryKernels memory;
  ElementwiseKernels elementwise;
  ReduceKernels reduce;
  MatmulKernels matmul;
  WeightKernels weights;
  SoftmaxKernels softmax;
  NormKernels norm;
  CrossEntropyKernels cross_entropy;
  IndexKernels index;
  RandomKernels random;
  PositionKernels position;
  AttentionKernels attention;
  OptimKernels optim;
};

/// The table of a device; throws DeviceError when there is no such device in this build or machine.
const Kernels& kernels(Device device);

}  // namespace attend
