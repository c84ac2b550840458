#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "attend/base/device.h"
#include "attend/base/random.h"
#include "attend/base/view.h"

// The interface of a device. Ops check shapes and dtypes, then call these kernels; kernels trust their arguments. A
// null entry means that the device does not implement the kernel; calling it throws an error with the kernel's name.
// Every kernel supports f32 and f64 and is deterministic: the same inputs give the same bits on any number of threads.
// The kernels of a GPU also support bf16 and f16. They compute in f32 then, and statistics (lse, mean, rstd) are f32.
// Beside tensors of 16 bits, parameters and their gradients may be f32: weight, bias, dweight, dbias, b of binary, y of
// accumulate and sum, c of matmul, the table of take_rows, dtable and dbias of attention.
//
// All views point to memory of the device. The kernels of a device run in the order of the calls. On a GPU a call
// returns before the kernel has run; only memory.download, memory.synchronize and index.check wait for it.
namespace attend {

/// A pointer to a kernel. Calling it throws DeviceError, which names the kernel, if the device does not implement it.
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

 private:  // exactly these two members: tests/backend/table_test.cpp reads a table as an array of such pairs
  Result (*function_)(Args...) = nullptr;
  const char* name_ = "";
};

struct MemoryKernels {
  Kernel<void*(size_t bytes)> allocate{"memory.allocate"};  ///< 64-byte aligned; throws DeviceError if out of memory
  Kernel<void(void* data, size_t bytes)> release{"memory.release"};
  /// The host memory may be reused as soon as the call returns.
  Kernel<void(void* to, const void* from_host, size_t bytes)> upload{"memory.upload"};
  Kernel<void(void* to_host, const void* from, size_t bytes)> download{"memory.download"};
  Kernel<void()> synchronize{"memory.synchronize"};  ///< waits for all kernels; throws DeviceError if one failed
  Kernel<size_t()> live_bytes{"memory.live_bytes"};  ///< bytes held by tensors and by scratch memory of kernels
  Kernel<size_t()> peak_bytes{"memory.peak_bytes"};  ///< the largest live_bytes since reset_peak
  Kernel<void()> reset_peak{"memory.reset_peak"};
};

enum class UnaryKind { relu, gelu, gelu_tanh, silu, tanh, sigmoid, exp, log };
enum class BinaryKind { add, subtract, multiply, divide };

struct ElementwiseKernels {
  Kernel<void(ConstView x, View y)> copy{"elementwise.copy"};  ///< any strides; converts between dtypes
  Kernel<void(View y, double value)> fill{"elementwise.fill"};
  Kernel<void(ConstView x, double scale, double shift, View y)> affine{
      "elementwise.affine"};                                               ///< y = scale · x + shift
  Kernel<void(ConstView x, View y)> accumulate{"elementwise.accumulate"};  ///< y += x; x may broadcast (stride 0)
  Kernel<void(BinaryKind kind, ConstView a, ConstView b, View y)> binary{
      "elementwise.binary"};  ///< a, b broadcast by stride 0
  /// x and y are dense [batch, length, width]; y = x at the first lengths[b] (i64) positions of row b, and 0 after.
  Kernel<void(ConstView x, ConstRows lengths, View y)> zero_padding{"elementwise.zero_padding"};
  Kernel<void(UnaryKind kind, ConstRows x, Rows y)> unary{"elementwise.unary"};
  Kernel<void(UnaryKind kind, ConstRows dy, ConstRows x, Rows dx)> unary_backward{
      "elementwise.unary_backward"};  ///< dx = dy · f'(x)
};

struct ReduceKernels {
  Kernel<void(ConstView x, View y)> sum{"reduce.sum"};  ///< y has the rank of x, with size 1 on the summed axes
  /// total (one f64) = the sum of the squares of all elements of all parts, which have one dtype
  Kernel<void(std::span<const ConstRows> parts, Rows total)> sum_of_squares{"reduce.sum_of_squares"};
};

struct MatmulOptions {
  bool accumulate = false;  ///< c += a b instead of c = a b
  ConstView bias;           ///< [n], added to each row; empty: no bias
  bool bf16 = false;        ///< round f32 operands to bf16 and add in f32; small products may stay exact
  bool tf32 = false;        ///< on a GPU: round f32 operands to TF32 (10 bits after the point) and add in f32
  ConstView residual{};     ///< added to c at the end; c's dtype and shape, but not c itself; empty: nothing is added
  View row_sums{};          ///< [m], c's dtype: receives the sums of a's rows, a being a matrix; empty: not needed
};
inline constexpr const char* kNoBf16 =
    "bfloat16 products need a CPU where they are faster than float32: AMX, or AVX512-BF16 of an AMD processor";
struct MatmulKernels {
  /// c[…, m, n] = a[…, m, k] · b[…, k, n]. Leading axes are equal or have stride 0. a and b may have any strides; the
  /// last stride of c is 1.
  Kernel<void(ConstView a, ConstView b, View c, const MatmulOptions& options)> multiply{"matmul.multiply"};
  /// u = a · b + bias and c = gelu_tanh(u): matrices of one dtype, u and c dense. The bias [n] may be empty.
  Kernel<void(ConstView a, ConstView b, ConstView bias, View u, View c)> multiply_gelu{"matmul.multiply_gelu"};
  /// c = (a · b) · gelu_tanh'(u): matrices of one dtype, u and c dense.
  Kernel<void(ConstView a, ConstView b, ConstView u, View c)> multiply_gelu_backward{"matmul.multiply_gelu_backward"};
  Kernel<bool()> has_bf16{"matmul.has_bf16"};  ///< whether MatmulOptions::bf16 is supported
};

/// Weights in the format held for inference, [out, in] with contiguous rows: f32, bf16, or i8, where row j represents
/// scales[j] · values[j].
struct WeightMatrix {
  ConstRows values;
  const float* scales = nullptr;  ///< only for i8: one per row
  const int32_t* sums = nullptr;  ///< only for i8: the sum of each row's values
  const void* panels = nullptr;   ///< the same weights as WeightKernels::pack wrote them, or null
  bool panels_for_bf16 = false;   ///< `bf16` of that call
};
/// One of several products of the same x.
struct WeightProduct {
  WeightMatrix weight;
  ConstRows bias;                         ///< f32 [out], or empty
  Rows y;                                 ///< f32 [rows, out]; with `places` also bf16, and any number of rows
  std::optional<UnaryKind> activation{};  ///< applied to x · weightᵀ + bias
  ConstRows residual{};                   ///< f32 [rows, out], added at the end; may be y; empty: nothing is added
  ConstRows places{};  ///< i64 [rows]: row i of the result is written to row places[i] of y; empty: to row i
};
/// A norm of the rows of x: layer norm, or RMS norm if `rms`.
struct RowNorm {
  ConstRows weight, bias;  ///< f32 [in], or empty
  double eps = 0;
  bool rms = false;
};
struct WeightProductOptions {
  bool bf16 = false;  ///< round x to bf16 if the weights are bf16; small products may stay exact
  /// The bits of a row of y must not depend on the number of rows of x. On the CPU they never do.
  bool batch_invariant = false;
  std::optional<RowNorm> norm{};  ///< x is replaced by its norm
  /// Weights, biases and the norm's weights may be read before earlier kernels have finished: none of them writes
  /// these.
  bool early = false;
};
struct WeightKernels {
  /// y = x · weightᵀ + bias for each product; x is f32 [rows, in]. bf16 weights are widened to f32 and give the same
  /// bits as f32 weights of the same values. With i8 weights, each row of x is first rounded to 255 steps of
  /// max |x| / 127, and the sums are exact.
  Kernel<void(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options)> multiply{
      "weights.multiply"};
  /// The same in stages: x of each stage is the result of the one before, and `options` apply to the first. Only the
  /// last one has y. A device may keep the results between stages rounded, if the next product rounds its x.
  Kernel<void(ConstRows x, std::span<const WeightProduct> stages, const WeightProductOptions& options)> chain{
      "weights.chain"};
  /// Rounds rows of f32 to i8, in steps of max |x| / 127, and sums each row of i8. A row with NaN or ∞ gets scale NaN.
  Kernel<void(ConstRows x, Rows values, float* scales, int32_t* sums)> quantize{"weights.quantize"};
  /// Writes the weights in the layout that products with several rows read fastest, and returns its size in bytes. Only
  /// returns the size if `to` is null; 0 if products of this device and format gain nothing. `bf16`: for products with
  /// that option.
  Kernel<size_t(const WeightMatrix& weight, bool bf16, void* to)> pack{"weights.pack"};
  /// y[i] = row index[i] of the table, in f32.
  Kernel<void(const WeightMatrix& table, ConstRows index, Rows y)> take_rows{"weights.take_rows"};
};

struct SoftmaxKernels {
  Kernel<void(ConstRows x, Rows y)> forward{"softmax.forward"};
  Kernel<void(ConstRows dy, ConstRows y, Rows dx)> backward{"softmax.backward"};
  Kernel<void(ConstRows x, Rows y)> log_forward{"softmax.log_forward"};
  Kernel<void(ConstRows dy, ConstRows y, Rows dx)> log_backward{"softmax.log_backward"};
  /// terms [rows, 2]: the two numbers that log_forward subtracts from a row, one after the other.
  Kernel<void(ConstRows x, Rows terms)> log_terms{"softmax.log_terms"};
};

struct NormKernels {
  /// y = (x − mean) · rstd · weight + bias; mean and rstd are [rows]; weight and bias [cols] or empty.
  Kernel<void(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd)> layer_forward{
      "norm.layer_forward"};
  /// Any of dx, dweight, dbias may be empty. `added`, if given, is added to dx; it may be dx itself.
  Kernel<void(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added, Rows dx,
              Rows dweight, Rows dbias)>
      layer_backward{"norm.layer_backward"};
  Kernel<void(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd)> rms_forward{"norm.rms_forward"};
  Kernel<void(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, ConstRows added, Rows dx, Rows dweight)>
      rms_backward{"norm.rms_backward"};
};

struct CrossEntropyOptions {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
};
/// target is i64 [rows]: a class, or ignore_index. lse has the logits' dtype, f32 for 16-bit logits.
struct CrossEntropyKernels {
  /// count (one i64) = the number of rows that are not ignored
  Kernel<void(ConstRows target, int64_t ignore_index, Rows count)> count{"cross_entropy.count"};
  /// The loss (f64, 0 on ignored rows) and the log-sum-exp of each row.
  Kernel<void(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows losses, Rows lse)> forward{
      "cross_entropy.forward"};
  /// loss (one element) = the sum of losses / count; 0 if count is 0
  Kernel<void(ConstRows losses, ConstRows count, Rows loss)> mean{"cross_entropy.mean"};
  /// dloss is one element; dx = dloss / count · (softmax − smoothed target), 0 on ignored rows. dx may be x itself.
  Kernel<void(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, ConstRows count,
              const CrossEntropyOptions& options, Rows dx)>
      backward{"cross_entropy.backward"};
  /// forward and backward with dloss = 1 in one pass over x; dx may be x itself.
  Kernel<void(ConstRows x, ConstRows target, ConstRows count, const CrossEntropyOptions& options, Rows losses, Rows dx)>
      with_gradient{"cross_entropy.with_gradient"};
};

struct IndexKernels {
  /// Throws ShapeError, which names `op`, unless all elements of index (i64) are in [0, limit).
  Kernel<void(ConstRows index, int64_t limit, const char* op)> check{"index.check"};
  Kernel<void(ConstRows table, ConstRows index, Rows y)> take_rows{"index.take_rows"};  ///< y[i] = table[index[i]]
  Kernel<void(ConstRows dy, ConstRows index, Rows dtable)> take_rows_backward{
      "index.take_rows_backward"};                                                      ///< dtable[index[i]] += dy[i]
  Kernel<void(ConstRows x, ConstRows index, Rows y)> gather_last{"index.gather_last"};  ///< y[r, i] = x[r, index[r, i]]
  Kernel<void(ConstRows dy, ConstRows index, Rows dx)> gather_last_backward{
      "index.gather_last_backward"};  ///< dx[r, index[r, i]] += dy[r, i]
};

/// What a step of text generation needs besides the layers. Nothing depends on numbers of the host, so that a step can
/// be recorded and repeated.
struct GenerationKernels {
  /// Row places[i] (i64) of y = row i of x. y may be bf16 if x is f32.
  Kernel<void(ConstRows x, ConstRows places, Rows y)> put_rows{"generation.put_rows"};
  /// copies is i64 [n, 3]: rows from … from + count − 1 of x are copied to the rows of y from `to` on, for each (from,
  /// to, count). y may be x if no row is both read and written. count is at most `longest`.
  Kernel<void(ConstRows x, ConstRows copies, int64_t longest, Rows y)> copy_runs{"generation.copy_runs"};
  /// y[i] = row ids[i] of `tokens` + row places[i] of `positions`, in f32.
  Kernel<void(const WeightMatrix& tokens, ConstRows ids, const WeightMatrix& positions, ConstRows places, Rows y)>
      embed{"generation.embed"};
  /// For each row of x (f32), y [rows, 2 + 2 · count]: the two numbers of softmax.log_terms; the `count` largest values
  /// among the first `words` columns, in descending order; their columns as f32 numbers. Of equal values the smaller
  /// column is first. NaN is ignored; missing values are −∞ with column −1. `words` is at most 2²⁴.
  Kernel<void(ConstRows x, int64_t words, Rows y)> best{"generation.best"};
};

/// Elements are independent of each other: element i (row-major) uses w_i = word i mod 4 of philox(seed, i / 4,
/// stream). Values are computed in double precision and rounded, so f32 and f64 agree.
struct RandomKernels {
  /// low + (high − low) · uniform_from_bits(w_i). `high` itself occurs only through rounding.
  Kernel<void(RandomStream stream, double low, double high, Rows y)> uniform{"random.uniform"};
  /// mean + deviation · √(−2 ln ((a + ½) / 2³²)) · cos (even i) or sin (odd i) of 2π b / 2³², where a and b are the
  /// words of the even and the odd element of i's pair.
  Kernel<void(RandomStream stream, double mean, double deviation, Rows y)> normal{"random.normal"};
  /// y = x / (1 − p) if dropout keeps the element, else 0: element i is number i mod 8 of those of block i / 8, as
  /// attend/base/random.h says. The backward pass is the same kernel applied to dy.
  Kernel<void(RandomStream stream, double p, ConstRows x, Rows y)> dropout{"random.dropout"};
};

enum class RotaryLayout { half, interleaved };
struct RotaryOptions {
  double base = 10000.0;
  int64_t offset = 0;  ///< position of the first row
  RotaryLayout layout = RotaryLayout::half;
  int64_t dims = 0;      ///< number of leading features of each row to rotate; 0: all
  bool inverse = false;  ///< rotate backwards, for the gradient
};
struct PositionKernels {
  /// x and y are […, length, dim]. `frequencies` (f64, dims / 2), if given, replaces the frequencies computed from
  /// base. `positions` (i64, [length]), if given, replaces offset + row.
  Kernel<void(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y)> rotary{
      "position.rotary"};
};

/// Positions in a page of a key-value cache.
inline constexpr int64_t kPageKeys = 16;

/// One attention call, forward or backward. attend/ops/attention.h documents the options.
struct AttentionProblem {
  /// [batch, heads, length, dim], unit last stride. In the forward pass k and v may be bf16 if q is f32.
  ConstView q, k, v;
  ConstView mask;       ///< u8 or boolean, broadcast to [batch, heads, q, k] by stride 0; empty: no mask
  ConstView bias;       ///< q's dtype, broadcast likewise; empty: no bias
  ConstView lengths;    ///< i64 [batch]: number of keys without padding; empty: all
  ConstView q_offsets;  ///< i64 [sequences + 1] into the length axis (batch must be 1); empty: not packed
  ConstView k_offsets;  ///< the same for keys
  ConstView alibi;      ///< q's dtype, [heads]; empty: no ALiBi
  bool causal = false;
  bool bottom_right = false;  ///< query i is at position i + (keys − queries) instead of i
  int64_t window = 0;         ///< 0: no window
  double scale = 1;
  double softcap = 0;  ///< 0: no softcap
  double dropout = 0;
  RandomStream random;
  /// The bits of a query's output must not depend on the number of queries. On the CPU they never do.
  bool batch_invariant = false;
  /// Only in a forward pass on the CPU, in f32 and with q_offsets: pages[s] holds the addresses of the pages of
  /// sequence s, which has lengths[s] keys. A page is the keys [key heads, dim, kPageKeys], transposed so that the keys
  /// of a feature fill a vector, then the values [key heads, kPageKeys, dim]. Of k and v only their dtype, f32 or bf16,
  /// and shapes are used, [1, key heads, longest length, dim].
  const void* const* const* pages = nullptr;
  /// Only in a forward pass on a GPU, with one query per batch entry and `lengths`: keys and values in pages. Entry b
  /// uses the pages page_table[table_rows[b]][…]; page n is the rows n · kPageKeys … of k and v, whose batch stride is
  /// 0. Both i64, [tables, pages] and [batch]. Entries of one run have one table, and their lengths do not decrease:
  /// run r is the entries runs[r] … runs[r + 1] − 1, i64 [runs + 1].
  ConstView page_table{}, table_rows{}, runs{};
};
struct AttentionGradients {
  ConstView y, dy, lse;  ///< the results of the forward pass and the upstream gradient
  View dq, dk, dv;       ///< each may be empty; written, not accumulated
  View dbias;            ///< the shape of bias before broadcasting, stride 0 where it was broadcast; may be empty
};
/// The requested weights: rows × heads of the full [batch, heads, q, k], each row whole or only its largest entries.
struct AttentionSelection {
  std::vector<int64_t> heads, rows;  ///< the requested heads and query rows; not empty
  int64_t top = 0;                   ///< number of largest entries per row; 0: whole rows
};
struct AttentionKernels {
  /// lse: [batch, heads, q], of q's dtype, or f32 for 16-bit types.
  Kernel<void(const AttentionProblem& problem, View y, View lse)> forward{"attention.forward"};
  Kernel<void(const AttentionProblem& problem, const AttentionGradients& gradients)> backward{"attention.backward"};
  /// values: [batch, requested heads, requested rows, k or top], the factors by which the forward pass multiplied v.
  /// With `top`, values are in descending order, and `places` (i64, same shape) holds their keys. Working memory does
  /// not grow with the number of rows.
  Kernel<void(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
              View places)>
      weights{"attention.weights"};
};

/// Scales all gradients of an update by min(1, max_norm / (√squares + 1e-6)). If `squares` is not finite, the update
/// changes nothing.
struct GradientClip {
  ConstRows squares;  ///< one f64 on the device: the sum of the squares of all gradients; empty: no scaling
  double max_norm = 0;
};
struct AdamSlot {
  ConstRows grad;
  Rows param, m, v;
  double weight_decay = 0;
  int64_t step = 1;  ///< counted from 1
  /// f64 [3] on the device, if AdamOptions::lr and `step` must not be fixed when a graph is captured: adam_rates().
  ConstRows rates;
};
struct AdamOptions {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  bool decoupled = false;  ///< AdamW: decay the parameter itself rather than the gradient
};
/// The numbers of an update that depend on the learning rate and the step t: lr / (1 − β1ᵗ), 1 / √(1 − β2ᵗ), and the
/// factor by which AdamW shrinks the parameter.
inline std::array<double, 3> adam_rates(const AdamOptions& options, double weight_decay, int64_t step) {
  const auto t = static_cast<double>(step);
  return {options.lr / (1 - std::pow(options.beta1, t)), 1 / std::sqrt(1 - std::pow(options.beta2, t)),
          options.decoupled ? 1 - options.lr * weight_decay : 1};
}
struct SgdSlot {
  ConstRows grad;
  Rows param, buffer;  ///< buffer empty: no momentum
  bool first = false;  ///< first step: the buffer has no history yet
};
struct SgdOptions {
  double lr = 0, momentum = 0, weight_decay = 0, dampening = 0;
  bool nesterov = false;
  ConstRows rate;  ///< one f64 on the device that replaces `lr`; empty: `lr`
};
struct OptimKernels {
  Kernel<void(std::span<const AdamSlot> slots, const AdamOptions& options, const GradientClip& clip)> adam{
      "optim.adam"};
  Kernel<void(std::span<const SgdSlot> slots, const SgdOptions& options, const GradientClip& clip)> sgd{"optim.sgd"};
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
  GenerationKernels generation;
};

/// The kernels of a device. Throws DeviceError if this build or machine does not have the device.
const Kernels& kernels(Device device);

}  // namespace attend
