#include "train/gradient_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"
#include "backend/kernels.h"
#include "distributed/cores.h"

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

/// −0 is the neutral element of addition: −0 + x has the bits of x for every x, also for ±0.
constexpr float kNothing = -0.0f;

distributed::Bytes bytes_of(const Tensor& tensor) {
  return {bytes_at(tensor), static_cast<size_t>(size_in_bytes(tensor))};
}

/// Numbers of elements as numbers of bytes.
std::vector<int64_t> in_bytes(std::vector<int64_t> counts, DType dtype) {
  for (int64_t& count : counts) count *= width_of(dtype);
  return counts;
}

}  // namespace

void add_gradient(Tensor& left, const Tensor& right) {
  if (!right) return;
  if (!left) {
    left = right;
    return;
  }
  kernels(left.device()).elementwise.accumulate(right.view(), left.view());
}

/// A part of a bucket on its way to the ranks that add it. `outgoing` and `incoming` have the type of the wire.
struct GradientExchange::Sending {
  Tensor outgoing, incoming;
  std::vector<int64_t> received;  // elements from each rank
  std::unique_ptr<distributed::Transfer> transfer;
};

struct GradientExchange::Bucket {
  std::vector<Tensor> parameters;
  std::vector<int64_t> offsets;
  std::vector<GradientSum> sums;
  int64_t size = 0;
  std::vector<int64_t> slices;  // begin of each rank's slice, then the size
  size_t missing = 0;           // parameters that are not ready; guarded by the exchange's mutex
  Tensor total;                 // f32 [size]
  std::vector<Sending> sending;
  Tensor mine, all;                                  // this process's sums and those of all, in the type of the wire
  std::unique_ptr<distributed::Transfer> returning;  // the sums

  int64_t slice_size(size_t rank) const { return slices[rank + 1] - slices[rank]; }

  /// Part `number` of all gradients as one dense tensor: a copy, unless a single large gradient fills the bucket.
  Tensor flattened(size_t number, Device device) {
    if (parameters.size() == 1) {
      const Tensor& gradient = sums[0].parts()[number].value;
      if (gradient && gradient.is_contiguous()) return gradient.as_strided({size}, {1}, gradient.offset());
    }
    Tensor flat = empty({size}, {DType::f32, device});
    flatten(number, flat);
    return flat;
  }

  /// The same in memory of the host, for gradients on the CPU.
  void flatten(size_t number, std::span<float> flat) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto to = flat.subspan(static_cast<size_t>(offsets[i]), static_cast<size_t>(parameters[i].numel()));
      const Tensor& gradient = sums[i].parts()[number].value;
      if (gradient) {
        const Tensor dense = gradient.is_contiguous() ? gradient : gradient.clone();
        std::memcpy(to.data(), bytes_at(dense), to.size_bytes());
      } else {
        std::ranges::fill(to, kNothing);
      }
    }
  }

  void flatten(size_t number, const Tensor& flat) {
    if (flat.device() == kCpu) {
      return flatten(number, {reinterpret_cast<float*>(bytes_at(flat)), static_cast<size_t>(size)});
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Shape& shape = parameters[i].shape();
      const Tensor to = flat.as_strided(shape, contiguous_strides(shape), offsets[i]);
      const Tensor& gradient = sums[i].parts()[number].value;
      copy_values(gradient ? gradient : attend::to(full(shape, kNothing, {DType::f32, kCpu}), flat.device()), to);
    }
  }
};

GradientExchange::GradientExchange(std::vector<Tensor> parameters, distributed::Group& group,
                                   const ExchangeOptions& options)
    : device_(parameters.empty() ? kCpu : parameters[0].device()), options_(options), places_(parameters.size()) {
  distributed::DeviceGroup made = distributed::device_group(group, device_);
  group_ = std::move(made.group);
  path_ = std::move(made.path);
  is_direct_ = made.is_direct;
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
  }
  for (auto& bucket : buckets_) {
    bucket->sums.resize(bucket->parameters.size());
    bucket->missing = bucket->parameters.size();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      bucket->slices.push_back(bucket->size * rank / ranks / kSliceMultiple * kSliceMultiple);
    }
    bucket->slices.push_back(bucket->size);
  }
  if (device_ == kCpu && options.order == GradientOrder::tree) {
    std::vector<int64_t> sizes;
    for (const auto& bucket : buckets_) sizes.push_back(bucket->size);
    shared_ = SharedSums::open(group, parts_, std::move(sizes));
    if (shared_) path_ = "through shared memory";
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = *buckets_[i];
    bucket.total = shared_ ? shared_->total(i) : empty({bucket.size}, {DType::f32, device_});
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
  if (device_ == kCpu) return changed_.notify_all();
  const auto start = Clock::now();
  for (; sent_ < buckets_.size() && buckets_[sent_]->missing == 0; ++sent_) send(*buckets_[sent_]);
  add_time(start);
}

/// Seconds since `start` in which the computation has waited. The mutex is held.
double GradientExchange::overlap(Clock::time_point start) const {
  return waits_since_ ? since(std::max(start, *waits_since_)) : 0;
}

/// Takes the buckets in order, as the other processes do. A barrier separates the wait for slower processes, which
/// leaves the core to the computation, from the exchange, which needs it.
void GradientExchange::work() {
  distributed::leave_cores();
  for (size_t next = 0;; next = (next + 1) % buckets_.size()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_over_ || (done_ == next && buckets_[next]->missing == 0); });
      if (is_over_) return;
    }
    auto start = Clock::now();
    try {
      Bucket& bucket = *buckets_[next];
      shared_ ? shared_->meet() : group_->barrier();
      {
        const std::lock_guard lock(mutex_);
        times_.waited += overlap(start);
      }
      start = Clock::now();
      if (shared_) {
        share(next);
      } else {
        send(bucket);
        add(bucket);
        receive(bucket);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      times_.busy += since(start);
      times_.exposed += overlap(start);
      ++done_;
      if (error_) return changed_.notify_all();
    }
    changed_.notify_all();
  }
}

std::vector<Tensor> GradientExchange::finish() {
  const auto start = Clock::now();
  if (device_ != kCpu) {
    for (auto& bucket : buckets_) add(*bucket);
    for (auto& bucket : buckets_) receive(*bucket);
    sent_ = 0;
    add_time(start);
  } else {
    std::unique_lock lock(mutex_);
    waits_since_ = start;
    changed_.wait(lock, [&] { return error_ || done_ == buckets_.size(); });
    waits_since_.reset();
    if (error_) std::rethrow_exception(error_);
  }
  const std::lock_guard lock(mutex_);
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

/// Adds the time since `start`, in which the host has moved gradients of a GPU.
void GradientExchange::add_time(std::chrono::steady_clock::time_point start) {
  if (is_direct_) return;
  times_.busy += since(start);
  times_.exposed += since(start);
}

/// Adds a bucket in memory that the processes share. With bf16 on the wire, values are rounded as if they were sent.
void GradientExchange::share(size_t number) {
  Bucket& bucket = *buckets_[number];
  const auto own = static_cast<size_t>(group_->rank());
  const bool is_rounded = options_.wire == WireType::bf16;
  for (size_t part = 0; part < parts_[own].size(); ++part) {
    const std::span<float> flat = shared_->part(number, part);
    bucket.flatten(part, flat);
    if (is_rounded) round_to_bf16(flat);
  }
  shared_->add(number, bucket.slices[own], bucket.slices[own + 1], is_rounded);
  for (GradientSum& sum : bucket.sums) sum = {};
}

/// Starts to send all parts of a bucket to the ranks that add them.
void GradientExchange::send(Bucket& bucket) {
  if (options_.order == GradientOrder::fast) {
    bucket.flatten(0, bucket.total);
    const auto values = reinterpret_cast<float*>(bytes_at(bucket.total));
    bucket.returning = group_->start_sum({values, static_cast<size_t>(bucket.size)});
    return;
  }
  size_t most = 0;
  for (const auto& parts : parts_) most = std::max(most, parts.size());
  for (size_t number = 0; number < most; ++number) bucket.sending.push_back(send_slices(bucket, number));
}

/// Starts an exchange of part `number`: this process sends each rank its slice of the part, and receives its own slice
/// from each rank. A rank with fewer parts sends nothing. With bf16 on the wire, values are rounded before they are
/// sent.
GradientExchange::Sending GradientExchange::send_slices(Bucket& bucket, size_t number) {
  const auto ranks = static_cast<size_t>(group_->size()), own = static_cast<size_t>(group_->rank());
  const bool sends = number < parts_[own].size(), is_rounded = options_.wire == WireType::bf16;
  std::vector<int64_t> sent(ranks, 0);
  Sending sending{.received = std::vector<int64_t>(ranks, 0)};
  int64_t total = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (sends) sent[rank] = bucket.slice_size(rank);
    if (number < parts_[rank].size()) sending.received[rank] = bucket.slice_size(own);
    total += sending.received[rank];
  }
  const Tensor flat = sends ? bucket.flattened(number, device_) : empty({0}, {DType::f32, device_});
  sending.outgoing = is_rounded ? to(flat, DType::bf16) : flat;
  sending.incoming = empty({total}, {sending.outgoing.dtype(), device_});
  const DType dtype = sending.outgoing.dtype();
  sending.transfer = group_->start_all_to_all(bytes_of(sending.outgoing), in_bytes(sent, dtype),
                                              bytes_of(sending.incoming), in_bytes(sending.received, dtype));
  return sending;
}

/// Adds the slices that have arrived and starts to send their sum to all ranks.
void GradientExchange::add(Bucket& bucket) {
  if (options_.order == GradientOrder::fast) return;
  const bool is_rounded = options_.wire == WireType::bf16;
  const Tensor sum = sum_slices(bucket);
  bucket.mine = is_rounded ? to(sum, DType::bf16) : sum;
  bucket.all = is_rounded ? empty({bucket.size}, {DType::bf16, device_}) : bucket.total;
  std::vector<int64_t> counts;
  for (size_t rank = 0; rank + 1 < bucket.slices.size(); ++rank) counts.push_back(bucket.slice_size(rank));
  bucket.returning =
      group_->start_all_gather(bytes_of(bucket.mine), bytes_of(bucket.all), in_bytes(counts, bucket.all.dtype()));
}

/// The sum of all processes' parts of this process's slice.
Tensor GradientExchange::sum_slices(Bucket& bucket) {
  const int64_t slice = bucket.slice_size(static_cast<size_t>(group_->rank()));
  std::vector<std::vector<Tensor>> arrived(parts_.size());  // [rank][part]
  for (Sending& sending : bucket.sending) {
    sending.transfer->wait();
    const Tensor values = to(sending.incoming, DType::f32);
    int64_t at = 0;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      const int64_t count = sending.received[rank];
      if (count > 0) arrived[rank].push_back(part_of(values, at, at + count));
      at += count;
    }
  }
  bucket.sending.clear();
  if (slice == 0) return empty({0}, {DType::f32, device_});
  const auto add = [this](Tensor& left, const Tensor& right) {
    device_ == kCpu ? add_on_host(left, right) : add_gradient(left, right);
  };
  GradientSum sum;
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    for (size_t number = 0; number < parts_[rank].size(); ++number) {
      const auto& [first, size] = parts_[rank][number];
      sum.push({first, size, arrived[rank][number]}, add);
    }
  }
  return sum.total(add);
}

/// Waits for the sums of a bucket.
void GradientExchange::receive(Bucket& bucket) {
  bucket.returning->wait();
  bucket.returning.reset();
  if (bucket.all && bucket.all.dtype() != DType::f32) copy_values(bucket.all, bucket.total);
  bucket.mine = bucket.all = {};
  for (GradientSum& sum : bucket.sums) sum = {};
}

}  // namespace attend
