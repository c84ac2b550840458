#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "attend/tensor/tensor.h"
#include "attend/train/options.h"
#include "distributed/device_group.h"
#include "distributed/tree_sum.h"
#include "train/shared_sums.h"

namespace attend {

using GradientSum = distributed::TreeSum<Tensor>;
/// Adds `right` to `left` in place. An empty tensor is 0.
void add_gradient(Tensor& left, const Tensor& right);

struct ExchangeOptions {
  int64_t batches = 1;  ///< batches per update, over all processes; each process has an equal, consecutive share
  GradientOrder order = GradientOrder::tree;
  WireType wire = WireType::f32;
};

/// The time of exchanges so far; 0 if messages go directly from GPU to GPU, because that time is not measured.
struct ExchangeTimes {
  double busy = 0;     ///< seconds in which gradients were exchanged
  double exposed = 0;  ///< seconds of them in which the computation waited
  double waited = 0;   ///< seconds in which the computation waited for slower processes
};

/// Adds the gradients of all processes while the backward pass still runs.
///
/// Parameters are grouped in buckets, in the order in which the backward pass finishes them. When all gradients of a
/// bucket are there, each process sends every other one its slice of the bucket, adds the slices that it receives in
/// the order of the tree (see TreeSum), and sends the sum back to all. So a process sends and receives about twice the
/// size of the gradients, whatever the number of processes, and the bits of the sums do not depend on that number.
///
/// On the CPU, a thread does all of this, as soon as every process has the bucket's gradients. Processes on one host
/// send nothing: they add in memory that they share (see SharedSums). On a GPU, slices are
/// sent during the backward pass, in the background; they are added, by kernels, and sent back in finish().
class GradientExchange {
 public:
  /// The parameters are f32 on one device. Collective.
  GradientExchange(std::vector<Tensor> parameters, distributed::Group& group, const ExchangeOptions& options);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// Hands over the parts of a parameter's gradient that this process has computed. Empty parts are 0.
  void ready(size_t parameter, GradientSum& sum);
  /// Waits for the sums. Element i is the gradient of parameter i; it is valid until the next update. Call ready() for
  /// all parameters before.
  std::vector<Tensor> finish();

  const ExchangeTimes& times() const { return times_; }
  /// How gradients travel: "by NCCL 2.28.9", "through shared memory".
  const std::string& path() const { return path_; }

 private:
  struct Bucket;
  struct Sending;
  void work();
  double overlap(std::chrono::steady_clock::time_point start) const;
  void add_time(std::chrono::steady_clock::time_point start);
  void share(size_t number);
  void send(Bucket& bucket);
  Sending send_slices(Bucket& bucket, size_t number);
  void add(Bucket& bucket);
  Tensor sum_slices(Bucket& bucket);
  void receive(Bucket& bucket);

  Device device_;
  std::unique_ptr<distributed::Group> group_;
  std::string path_;
  bool is_direct_;
  ExchangeOptions options_;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> parts_;  // of each rank: first leaf and number of leaves
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::unique_ptr<SharedSums> shared_;             // null: processes send messages
  std::vector<std::pair<size_t, size_t>> places_;  // of each parameter: its bucket, its place in the bucket
  ExchangeTimes times_;
  size_t sent_ = 0;  // buckets of this update, on a GPU

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t done_ = 0;  // buckets of this update; guarded by mutex_, like the following
  std::optional<std::chrono::steady_clock::time_point> waits_since_;  // the computation waits in finish()
  bool is_over_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace attend
