#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_backward.h"

// The gradient of a bias that batch entries or heads share: the sum of their dS. The backward pass writes the dS of
// some of them to a buffer; then they are added in ascending order, in f32. Biases whose rows bulk copies cannot write
// go the same way.
namespace attend::cuda {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 30;
constexpr int kThreads = 256, kOwn = 8;  // kOwn: neighbouring keys of a thread

/// Batch entries [batch, batch_end) and query heads [head, head_end).
struct Slices {
  int64_t batch, batch_end, head, head_end;
  int64_t batches() const { return batch_end - batch; }
  int64_t heads() const { return head_end - head; }
};

template <class View>
View part_of(View view, const Slices& slices, int64_t head_group = 1) {
  if (!view) return view;
  const int64_t head = slices.head / head_group;
  const int64_t offset = slices.batch * view.strides[0] + head * view.strides[1];
  using Bytes = std::conditional_t<std::is_same_v<View, attend::View>, char, const char>;
  view.data = static_cast<Bytes*>(view.data) + offset * static_cast<int64_t>(size_of(view.dtype));
  view.shape[0] = slices.batches();
  view.shape[1] = slices.heads() / head_group;
  return view;
}
ConstView range_of(ConstView view, int64_t begin, int64_t end) {
  if (!view) return view;
  view.data = static_cast<const char*>(view.data) + begin * view.strides[0] * static_cast<int64_t>(size_of(view.dtype));
  view.shape[0] = end - begin;
  return view;
}

AttentionProblem part_of(const AttentionProblem& problem, const Slices& slices) {
  const int64_t group = problem.q.shape[1] / problem.k.shape[1];
  AttentionProblem part = problem;
  part.q = part_of(problem.q, slices);
  part.k = part_of(problem.k, slices, group);
  part.v = part_of(problem.v, slices, group);
  part.mask = part_of(problem.mask, slices);
  part.bias = part_of(problem.bias, slices);
  part.lengths = range_of(problem.lengths, slices.batch, slices.batch_end);
  part.alibi = range_of(problem.alibi, slices.head, slices.head_end);
  return part;
}
AttentionGradients part_of(const AttentionGradients& gradients, const Slices& slices, int64_t group, View dbias) {
  return {.y = part_of(gradients.y, slices),
          .dy = part_of(gradients.dy, slices),
          .lse = part_of(gradients.lse, slices),
          .dq = part_of(gradients.dq, slices),
          .dk = part_of(gradients.dk, slices, group),
          .dv = part_of(gradients.dv, slices, group),
          .dbias = dbias};
}

struct SumArguments {
  const uint16_t* from;  ///< [batches, heads, pairs]: dS
  int batches, heads;
  bool shared_batch, shared_head;
  float* sums;     ///< [biases, pairs]
  bool is_first;   ///< sums have no value yet
  bool is_last;    ///< the result goes to dbias, not to sums
  uint16_t* to;    ///< dbias of the first of these slices
  RowStrides out;  ///< of dbias
  int64_t key_step;
  bool wide;      ///< dbias can be written in pieces of 16 bytes
  int64_t pairs;  ///< queries · pitch
  int pitch, keys;
};

/// A CTA row for each bias of the slices; a thread takes kOwn pairs.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ SumArguments args) {
  const int64_t n = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kOwn;
  if (n >= args.pairs) return;
  const int bias = static_cast<int>(blockIdx.y), biases = args.shared_head ? 1 : args.heads;
  const int batch = bias / biases, head = bias % biases;
  float4* sums = reinterpret_cast<float4*>(args.sums + bias * args.pairs + n);
  float sum[kOwn] = {};
  if (!args.is_first) {
    const float4 low = sums[0], high = sums[1];
    const float before[kOwn] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int e = 0; e < kOwn; ++e) sum[e] = before[e];
  }
  const int last_batch = args.shared_batch ? args.batches : batch + 1;
  const int last_head = args.shared_head ? args.heads : head + 1;
  for (int b = batch; b < last_batch; ++b) {
    const uint16_t* from = args.from + (int64_t{b} * args.heads + head) * args.pairs + n;
#pragma unroll 4
    for (int h = head; h < last_head; ++h, from += args.pairs) {
      const uint4 four = __ldcs(reinterpret_cast<const uint4*>(from));
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 two = unpack<T>(words[e]);
        sum[2 * e] += two.x;
        sum[2 * e + 1] += two.y;
      }
    }
  }
  if (!args.is_last) {
    sums[0] = {sum[0], sum[1], sum[2], sum[3]};
    sums[1] = {sum[4], sum[5], sum[6], sum[7]};
    return;
  }
  const int64_t row = n / args.pitch;
  const int key = static_cast<int>(n - row * args.pitch);
  uint16_t* to = args.to + batch * args.out.batch + head * args.out.head + row * args.out.row + key * args.key_step;
  uint32_t words[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) words[e] = pack<T>(sum[2 * e], sum[2 * e + 1]);
  if (args.wide && key + kOwn <= args.keys) {
    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    return;
  }
#pragma unroll
  for (int e = 0; e < kOwn; ++e) {
    if (key + e < args.keys) to[e * args.key_step] = static_cast<uint16_t>(words[e / 2] >> (e % 2 * 16));
  }
}

}  // namespace

bool backward_with_buffer(const AttentionProblem& problem, const AttentionGradients& gradients) {
  const View& dbias = gradients.dbias;
  const int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], queries = problem.q.shape[2],
                keys = problem.k.shape[2], group = heads / problem.k.shape[1];
  if ((queries > 1 && dbias.strides[2] == 0) || (keys > 1 && dbias.strides[3] == 0)) return false;
  // The numbers of dropout depend on the number of the slice.
  if (problem.q_offsets || problem.softcap > 0 || problem.dropout > 0 || dbias.dtype != problem.q.dtype) return false;

  const int64_t pitch = (keys + kOwn - 1) / kOwn * kOwn, pairs = queries * pitch;
  const int64_t most = std::max(kBufferBytes / (2 * pairs), group);
  const int64_t batches = std::clamp<int64_t>(most / heads, 1, batch), together = std::min(most / group * group, heads);
  const bool shared_batch = dbias.strides[0] == 0, shared_head = dbias.strides[1] == 0;
  const bool is_whole = (batches == batch || !shared_batch) && (together == heads || !shared_head);
  const Scratch<uint16_t> buffer(batches * together * pairs);
  const Scratch<float> sums(is_whole ? 0 : (shared_batch ? 1 : batches) * (shared_head ? 1 : heads) * pairs);
  const bool hides_blocks = problem.causal || problem.window > 0 || problem.lengths;

  for (int64_t b = 0; b < batch; b += batches) {
    for (int64_t h = 0; h < heads; h += together) {
      const Slices slices{b, std::min(b + batches, batch), h, std::min(h + together, heads)};
      const View ds{buffer.data(),
                    dbias.dtype,
                    {slices.batches(), slices.heads(), queries, keys},
                    {slices.heads() * pairs, pairs, pitch, 1}};
      if (hides_blocks)
        check(cudaMemsetAsync(buffer.data(), 0, static_cast<size_t>(slices.batches() * slices.heads() * pairs) * 2,
                              stream()),
              "attention.backward");
      if (!hopper_backward(part_of(problem, slices), part_of(gradients, slices, group, ds))) return false;
      const View out = part_of(dbias, slices);
      const SumArguments args{
          .from = buffer.data(),
          .batches = static_cast<int>(slices.batches()),
          .heads = static_cast<int>(slices.heads()),
          .shared_batch = shared_batch,
          .shared_head = shared_head,
          .sums = is_whole ? nullptr : sums.data() + (shared_head ? 0 : h * pairs),
          .is_first = !(shared_batch && b > 0) && !(shared_head && h > 0),
          .is_last = (!shared_batch || slices.batch_end == batch) && (!shared_head || slices.head_end == heads),
          .to = static_cast<uint16_t*>(out.data),
          .out = row_strides(out),
          .key_step = out.strides[3],
          .wide = has_wide_rows(out),
          .pairs = pairs,
          .pitch = static_cast<int>(pitch),
          .keys = static_cast<int>(keys)};
      const auto biases =
          static_cast<unsigned>((shared_batch ? 1 : slices.batches()) * (shared_head ? 1 : slices.heads()));
      const dim3 ctas(static_cast<unsigned>((pairs / kOwn + kThreads - 1) / kThreads), biases);
      const auto kernel = dbias.dtype == DType::bf16 ? sum_kernel<__nv_bfloat16> : sum_kernel<__half>;
      kernel<<<ctas, kThreads, 0, stream()>>>(args);
      check_launch("attention.backward");
    }
  }
  return true;
}

}  // namespace attend::cuda
