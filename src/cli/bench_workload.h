#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/tensor.h"

namespace attend::cli {

/// What bounds a workload, and so what its share is a share of.
enum class Bound {
  arithmetic,  ///< operations per second against the machine's multiply-add peak
  memory,      ///< compulsory bytes per second against the machine's read bandwidth
  baseline,    ///< time against that of the baseline: the share is their ratio
};

/// Results a run leaves behind, held while its memory is measured.
using Results = std::vector<Tensor>;

/// Tensors made and ready: what to do before each run, untimed, and the run itself.
struct Prepared {
  std::function<void()> before = [] {};
  std::function<Results()> run;
  std::function<Results()> baseline;  ///< only for Bound::baseline
  double operations = 0;              ///< of one run, where the workload itself cannot tell
};

struct Workload {
  std::string name;
  Bound bound = Bound::arithmetic;
  double operations = 0;                    ///< of one run, counting only what the result needs
  double bytes = 0;                         ///< inputs read once and outputs written once
  int64_t tokens = 0;                       ///< that one run reads, writes or trains on; 0: it is about none
  WeightFormat format = WeightFormat::f32;  ///< of the weights
  Precision precision = Precision::f32;     ///< of products: its peak is compared with, int8's for int8 weights
  bool slow = false;                        ///< only when named, or with --all
  std::function<Prepared()> prepare;
};

/// Normal numbers, the same in every run.
Tensor values(const Shape& shape, uint64_t stream);

std::vector<Workload> attention_workloads();
std::vector<Workload> layer_workloads();
std::vector<Workload> training_workloads();
std::vector<Workload> inference_workloads();

/// What was measured: medians over rounds, each compared with the peak measured just before and after it.
struct Measurement {
  std::string name;
  Bound bound = Bound::arithmetic;
  double seconds = 0;
  double gflops = 0;
  double gbs = 0;
  double share = 0;
  double tokens_per_second = 0;
  size_t extra_bytes = 0;  ///< allocated at the worst moment beyond inputs and results
};

/// The best seen so far, over all rounds.
struct Machine {
  double peak_gflops = 0, bandwidth_gbs = 0;
  double bf16_gflops = 0, int8_gops = 0;  ///< 0: no workload asked
};
Measurement measure(Workload workload, Machine& machine);

}  // namespace attend::cli
