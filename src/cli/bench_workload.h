#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/tensor.h"

namespace attend::cli {

/// The resource that limits a workload, of which its share is reported.
enum class Bound {
  arithmetic,  ///< operations per second against the machine's multiply-add peak
  memory,      ///< compulsory bytes per second against the machine's read bandwidth
  baseline,    ///< time of the workload divided by the time of the baseline
};

/// Results of a run, held while its memory is measured.
using Results = std::vector<Tensor>;

/// A workload with its inputs allocated: an untimed step before each run, and the run itself.
struct Prepared {
  std::function<void()> before;  ///< may be empty
  std::function<Results()> run;
  std::function<Results()> baseline;  ///< only for Bound::baseline
  double operations = 0;              ///< of one run; if not 0, replaces Workload::operations
};

struct Workload {
  std::string name;
  Bound bound = Bound::arithmetic;
  double operations = 0;                    ///< of one run, counting only necessary operations
  double bytes = 0;                         ///< inputs read once and outputs written once
  int64_t tokens = 0;                       ///< that one run reads, writes or trains on; 0: not counted
  WeightFormat format = WeightFormat::f32;  ///< of the weights
  Precision precision = Precision::f32;     ///< of products; selects the peak, except that int8 weights use int8's
  bool slow = false;                        ///< runs only if named or with --all
  std::function<Prepared()> prepare;
};

/// Where the workloads run. `attend bench` sets it before it prepares the first workload.
Device& bench_device();
/// A model on bench_device().
template <class Model>
Model on_bench_device(Model model) {
  model->to(bench_device());
  return model;
}
/// Normally distributed numbers on bench_device(), the same in every run.
Tensor values(const Shape& shape, uint64_t stream);

std::vector<Workload> attention_workloads();
std::vector<Workload> gpu_attention_workloads();  ///< only for a GPU
std::vector<Workload> layer_workloads();
std::vector<Workload> training_workloads();
std::vector<Workload> gpu_training_workloads();  ///< only for a GPU
std::vector<Workload> inference_workloads();
std::vector<Workload> gpu_inference_workloads();  ///< only for a GPU

/// The medians over all rounds, each compared with the peak measured just before and after it.
struct Measurement {
  std::string name;
  Bound bound = Bound::arithmetic;
  double seconds = 0;
  double gflops = 0;
  double gbs = 0;
  double share = 0;
  double tokens_per_second = 0;
  size_t extra_bytes = 0;  ///< peak allocation beyond inputs and results
};

/// The highest rates measured so far, over all rounds.
struct Machine {
  double peak_gflops = 0, bandwidth_gbs = 0;
  double bf16_gflops = 0, int8_gops = 0;  ///< 0: not measured
};
Measurement measure(Workload workload, Machine& machine);

}  // namespace attend::cli
