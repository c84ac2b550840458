#include "train/gradient_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"
#include "backend/kernels.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
// At most 8 MiB: long enough for the bandwidth, short enough to overlap. Small models have smaller buckets, about
// eight.
constexpr int64_t kMostValues = int64_t{1} << 21, kLeastValues = int64_t{1} << 16, kBuckets = 8;
constexpr int64_t kSliceMultiple = 16;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Elements [begin, end) of a dense tensor.
Tensor part_of(const Tensor& flat, int64_t begin, int64_t end) { return flat.as_strided({end - begin}, {1}, begin); }

std::byte* bytes_at(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

int64_t width_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

int64_t size_in_bytes(const Tensor& tensor) { return tensor.numel() * width_of(tensor.dtype()); }

/// In the background, a plain loop: the thread pool belongs to the backward pass.
void add_on_host(const Tensor& left, const Tensor& right) {
  auto* to = reinterpret_cast<float*>(bytes_at(left));
  const auto* from = reinterpret_cast<const float*>(bytes_at(right));
  const int64_t count = left.numel();
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// Copies dense tensors of one dtype and device.
void copy_dense(const Tensor& from, const Tensor& to) {
  if (from.device() == kCpu) {
    std::memcpy(bytes_at(to), bytes_at(from), static_cast<size_t>(size_in_bytes(from)));
  } else {
    copy_values(from, to);
  }
}

/// −0 is the neutral element of addition: −0 + x has the bits of x for every x, also for ±0.
void fill_with_nothing(const Tensor& values) {
  if (values.device() == kCpu) {
    auto* to = reinterpret_cast<float*>(bytes_at(values));
    std::fill(to, to + values.numel(), -0.0f);
  } else {
    copy_values(tensor<float>(std::vector<float>(static_cast<size_t>(values.numel()), -0.0f), values.shape()), values);
  }
}

/// Bytes that a transfer reads or writes: the tensor itself on the host, else a copy on the host.
class OnHost {
 public:
  explicit OnHost(const Tensor& tensor) : tensor_(tensor), host_(tensor) {
    if (tensor.device() != kCpu) host_ = empty(tensor.shape(), {tensor.dtype(), kCpu});
  }
  distributed::ConstBytes read() {
    if (tensor_.device() != kCpu) copy_values(tensor_, host_);
    return {bytes_at(host_), static_cast<size_t>(size_in_bytes(host_))};
  }
  distributed::Bytes to_write() { return {bytes_at(host_), static_cast<size_t>(size_in_bytes(host_))}; }
  void written() {
    if (tensor_.device() != kCpu) copy_values(host_, tensor_);
  }

 private:
  Tensor tensor_, host_;
};

}  // namespace

void add_gradient(Tensor& left, const Tensor& right) {
  if (!right) return;
  if (!left) {
    left = right;
    return;
  }
  kernels(left.device()).elementwise.accumulate(right.view(), left.view());
}

struct GradientExchange::Bucket {
  std::vector<Tensor> parameters;
  std::vector<int64_t> offsets;
  std::vector<GradientSum> sums;
  int64_t size = 0;
  std::vector<int64_t> slices;  // begin of each rank's slice, then the size
  size_t missing = 0;           // parameters that are not ready; guarded by the exchange's mutex
  Tensor total;                 // f32 [size]

  int64_t slice_size(size_t rank) const { return slices[rank + 1] - slices[rank]; }

  /// Part `number` of all gradients as one dense tensor.
  void flatten(size_t number, const Tensor& flat) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Shape& shape = parameters[i].shape();
      const Tensor to = flat.as_strided(shape, contiguous_strides(shape), offsets[i]);
      const Tensor& gradient = sums[i].parts()[number].value;
      gradient ? copy_dense(gradient, to) : fill_with_nothing(to);
    }
  }
};

GradientExchange::GradientExchange(std::vector<Tensor> parameters, distributed::Group& group,
                                   const ExchangeOptions& options)
    : group_(group.channel()), options_(options), places_(parameters.size()) {
  const int64_t ranks = group.size(), mine = options.batches / ranks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    parts_.push_back(distributed::tree_parts(rank * mine, (rank + 1) * mine));
  }
  int64_t total = 0;
  for (const Tensor& parameter : parameters) total += parameter.numel();
  const int64_t values = std::clamp(total / kBuckets, kLeastValues, kMostValues);
  for (size_t i = parameters.size(); i-- > 0;) {
    require<ShapeError>(parameters[i].dtype() == DType::f32, "gradients are exchanged as f32, got ",
                        parameters[i].dtype());
    if (buckets_.empty() || buckets_.back()->size >= values) buckets_.push_back(std::make_unique<Bucket>());
    Bucket& bucket = *buckets_.back();
    places_[i] = {buckets_.size() - 1, bucket.parameters.size()};
    bucket.offsets.push_back(bucket.size);
    bucket.size += parameters[i].numel();
    bucket.parameters.push_back(parameters[i].detach());
    device_ = parameters[i].device();
  }
  for (auto& bucket : buckets_) {
    bucket->sums.resize(bucket->parameters.size());
    bucket->missing = bucket->parameters.size();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      bucket->slices.push_back(bucket->size * rank / ranks / kSliceMultiple * kSliceMultiple);
    }
    bucket->slices.push_back(bucket->size);
    bucket->total = empty({bucket->size}, {DType::f32, device_});
  }
  if (device_ == kCpu) thread_ = std::thread([this] { work(); });
}

GradientExchange::~GradientExchange() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GradientExchange::ready(size_t parameter, GradientSum& sum) {
  const auto [number, place] = places_[parameter];
  Bucket& bucket = *buckets_[number];
  bucket.sums[place] = std::move(sum);
  {
    const std::lock_guard lock(mutex_);
    --bucket.missing;
  }
  changed_.notify_all();
}

/// Takes the buckets in order, as the other processes do.
void GradientExchange::work() {
  for (size_t next = 0;; next = (next + 1) % buckets_.size()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_over_ || (done_ == next && buckets_[next]->missing == 0); });
      if (is_over_) return;
    }
    const auto start = Clock::now();
    try {
      exchange(*buckets_[next]);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      times_.busy += since(start);
      ++done_;
      if (error_) return changed_.notify_all();
    }
    changed_.notify_all();
  }
}

std::vector<Tensor> GradientExchange::finish() {
  const auto start = Clock::now();
  if (device_ != kCpu) {
    for (auto& bucket : buckets_) exchange(*bucket);
  } else {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || done_ == buckets_.size(); });
    if (error_) std::rethrow_exception(error_);
  }
  const double waited = since(start);
  const std::lock_guard lock(mutex_);
  times_.exposed += waited;
  if (device_ != kCpu) times_.busy += waited;
  done_ = 0;
  std::vector<Tensor> gradients;
  for (const auto& [number, place] : places_) {
    Bucket& bucket = *buckets_[number];
    const Tensor& parameter = bucket.parameters[place];
    gradients.push_back(
        bucket.total.as_strided(parameter.shape(), contiguous_strides(parameter.shape()), bucket.offsets[place]));
    bucket.missing = bucket.parameters.size();
  }
  return gradients;
}

void GradientExchange::exchange(Bucket& bucket) {
  if (options_.order == GradientOrder::fast) {
    bucket.flatten(0, bucket.total);
    OnHost host(bucket.total);
    host.read();
    const distributed::Bytes bytes = host.to_write();
    group_->start_sum({reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)})->wait();
    host.written();
  } else {
    gather_slices(sum_slices(bucket), bucket);
  }
  for (GradientSum& sum : bucket.sums) sum = {};
}

/// The sum of all processes' parts of this process's slice.
Tensor GradientExchange::sum_slices(Bucket& bucket) {
  const auto ranks = static_cast<size_t>(group_->size()), own = static_cast<size_t>(group_->rank());
  const int64_t slice = bucket.slice_size(own);
  size_t most = 0;
  for (const auto& parts : parts_) most = std::max(most, parts.size());
  std::vector<std::vector<Tensor>> arrived(ranks);  // [rank][part]
  const Tensor flat = empty({bucket.size}, {DType::f32, device_});
  for (size_t number = 0; number < most; ++number) {
    std::vector<int64_t> sent(ranks, 0), received(ranks, 0);
    int64_t total = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (number < parts_[own].size()) sent[rank] = bucket.slice_size(rank);
      if (number < parts_[rank].size()) received[rank] = slice;
      total += received[rank];
    }
    if (number < parts_[own].size()) bucket.flatten(number, flat);
    const Tensor into = empty({total}, {DType::f32, device_});
    send_slices(number < parts_[own].size() ? flat : part_of(flat, 0, 0), into, sent, received);
    int64_t at = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (received[rank] > 0) arrived[rank].push_back(part_of(into, at, at + slice));
      at += received[rank];
    }
  }
  if (slice == 0) return part_of(flat, 0, 0);
  const auto add = [this](Tensor& left, const Tensor& right) {
    device_ == kCpu ? add_on_host(left, right) : add_gradient(left, right);
  };
  GradientSum sum;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t number = 0; number < parts_[rank].size(); ++number) {
      const auto& [first, size] = parts_[rank][number];
      sum.push({first, size, arrived[rank][number]}, add);
    }
  }
  return sum.total(add);
}

/// All slices of `flat` to their ranks. With bf16 on the wire, values are rounded before they are sent.
void GradientExchange::send_slices(const Tensor& flat, const Tensor& into, const std::vector<int64_t>& sent,
                                   const std::vector<int64_t>& received) {
  const bool is_rounded = options_.wire == WireType::bf16;
  const Tensor outgoing = is_rounded ? to(flat, DType::bf16) : flat;
  const Tensor incoming = is_rounded ? empty(into.shape(), {DType::bf16, device_}) : into;
  const auto in_bytes = [&](std::vector<int64_t> counts) {
    for (int64_t& count : counts) count *= width_of(outgoing.dtype());
    return counts;
  };
  OnHost from(outgoing), arrived(incoming);
  group_->start_all_to_all(from.read(), in_bytes(sent), arrived.to_write(), in_bytes(received))->wait();
  arrived.written();
  if (is_rounded) copy_values(incoming, into);
}

void GradientExchange::gather_slices(const Tensor& mine, Bucket& bucket) {
  const bool is_rounded = options_.wire == WireType::bf16;
  const Tensor outgoing = is_rounded ? to(mine, DType::bf16) : mine;
  const Tensor all = is_rounded ? empty({bucket.size}, {DType::bf16, device_}) : bucket.total;
  std::vector<int64_t> counts;
  for (size_t rank = 0; rank + 1 < bucket.slices.size(); ++rank) {
    counts.push_back(bucket.slice_size(rank) * width_of(all.dtype()));
  }
  OnHost from(outgoing), arrived(all);
  group_->start_all_gather(from.read(), arrived.to_write(), counts)->wait();
  arrived.written();
  if (is_rounded) copy_values(all, bucket.total);
}

}  // namespace attend
