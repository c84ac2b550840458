#include <algorithm>
#include <chrono>

#include "attend/autograd/autograd.h"
#include "attend/ops/matmul.h"
#include "attend/tensor/creation.h"
#include "backend/cpu/machine.h"
#include "backend/kernels.h"
#include "cli/bench_workload.h"

namespace attend::cli {
namespace {

constexpr int kRounds = 5, kMostRounds = 15;
constexpr double kShortest = 0.02;  // minimum seconds per round, to hide the clock's resolution and thread wake-up
constexpr double kEnough = 1;  // seconds of rounds after which 5 rounds suffice: longer than a burst of another process
constexpr double kLongest = 6;  // seconds after which no further round starts

/// Whether to run another round after `done` rounds that took `spent` seconds.
bool goes_on(int done, double spent) {
  return done < kRounds ? spent < kLongest : done < kMostRounds && spent < kEnough;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void synchronize() { kernels(bench_device()).memory.synchronize(); }

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds per run, averaged over `repeats`. The work of `before` is not counted; without it a GPU runs all repeats in
/// a row.
double time_runs(const Prepared& prepared, const std::function<Results()>& run, int repeats) {
  double total = 0;
  synchronize();
  if (!prepared.before) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) run();
    synchronize();
    return seconds_since(begin) / repeats;
  }
  for (int i = 0; i < repeats; ++i) {
    prepared.before();
    synchronize();
    const auto begin = std::chrono::steady_clock::now();
    const Results results = run();
    synchronize();
    total += seconds_since(begin);
  }
  return total / repeats;
}

/// The first run warms caches and allocator and measures memory: the peak less what remains allocated.
size_t extra_bytes(const Prepared& prepared) {
  if (prepared.before) prepared.before();
  reset_peak_memory(bench_device());
  const Results results = prepared.run();
  const MemoryStats stats = memory_stats(bench_device());
  return stats.peak_bytes - std::min(stats.peak_bytes, stats.live_bytes);
}

/// Seconds of one call of `work` on the GPU: the best of a few, as a GPU has no other users here.
double gpu_seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    synchronize();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

double gpu_bandwidth_gbs() {
  constexpr int64_t kBytes = int64_t{2} << 30;
  const Tensor from = zeros({kBytes / 4}, {.device = bench_device()}), target = empty_like(from);
  return 2e-9 * kBytes / gpu_seconds([&] { copy_values(from, target); });
}

double gpu_peak_gflops(Precision precision) {
  constexpr int64_t kSize = 8192;
  const Tensor a = values({kSize, kSize}, 1), b = values({kSize, kSize}, 2);
  const PrecisionScope scope(precision, bench_device());
  const NoGrad no_grad;
  return 2e-9 * kSize * kSize * kSize / gpu_seconds([&] { matmul(a, b); });
}

/// The GPU's rate for a workload to be compared with, measured once.
double gpu_rate(const Workload& workload, Machine& machine) {
  const auto once = [](double& known, const std::function<double()>& measure_it) {
    if (known == 0) known = measure_it();
    return known;
  };
  if (workload.bound == Bound::memory) return once(machine.bandwidth_gbs, gpu_bandwidth_gbs);
  if (workload.precision == Precision::bf16) {
    return once(machine.bf16_gflops, [] { return gpu_peak_gflops(Precision::bf16); });
  }
  return once(machine.peak_gflops, [] { return gpu_peak_gflops(Precision::f32); });
}

/// Measures the machine's rate for a workload to be compared with, and updates the highest.
double machine_rate(const Workload& workload, Machine& machine) {
  if (bench_device() != kCpu) return gpu_rate(workload, machine);
  const auto better = [](double& best, double now) {
    best = std::max(best, now);
    return now;
  };
  if (workload.bound == Bound::memory) return better(machine.bandwidth_gbs, cpu::read_bandwidth_gbs());
  if (workload.format == WeightFormat::int8) return better(machine.int8_gops, cpu::int8_peak_gops());
  if (workload.precision == Precision::bf16) return better(machine.bf16_gflops, cpu::bf16_peak_gflops());
  return better(machine.peak_gflops, cpu::fma_peak_gflops());
}

struct Rounds {
  std::vector<double> seconds, shares;
};

/// Alternates measurements of machine and workload, because the speed of a shared machine drifts. Each round is
/// compared with the two machine rates around it: with the higher for arithmetic, whose peak is a constant of the
/// machine; with the mean for memory, where other processes use part of the bandwidth throughout.
Rounds against_machine(const Workload& workload, const Prepared& prepared, int repeats, Machine& machine) {
  Rounds rounds;
  const double work = (workload.bound == Bound::memory ? workload.bytes : workload.operations) * 1e-9;
  double before = machine_rate(workload, machine), spent = 0;
  for (int round = 0; goes_on(round, spent); ++round) {
    const double seconds = time_runs(prepared, prepared.run, repeats);
    const double after = machine_rate(workload, machine);
    rounds.seconds.push_back(seconds);
    const double available = workload.bound == Bound::memory ? (before + after) / 2 : std::max(before, after);
    rounds.shares.push_back(work / seconds / available);
    spent += seconds * repeats;
    before = after;
  }
  return rounds;
}

Rounds against_baseline(const Prepared& prepared, int repeats) {
  Rounds rounds;
  double spent = 0;
  for (int round = 0; goes_on(round, spent); ++round) {
    const double without = time_runs(prepared, prepared.baseline, repeats);
    const double with = time_runs(prepared, prepared.run, repeats);
    rounds.seconds.push_back(with);
    rounds.shares.push_back(with / without);
    spent += (with + without) * repeats;
  }
  return rounds;
}

}  // namespace

Measurement measure(Workload workload, Machine& machine) {
  const Prepared prepared = workload.prepare();
  if (prepared.operations > 0) workload.operations = prepared.operations;
  Measurement result{.name = workload.name, .bound = workload.bound, .extra_bytes = extra_bytes(prepared)};
  const double once = workload.slow ? kShortest : time_runs(prepared, prepared.run, 1);
  const int repeats = std::clamp(static_cast<int>(kShortest / std::max(once, 1e-6)), 1, 1000);
  const Rounds rounds = workload.bound == Bound::baseline ? against_baseline(prepared, repeats)
                                                          : against_machine(workload, prepared, repeats, machine);
  result.seconds = median(rounds.seconds);
  result.share = median(rounds.shares);
  result.gflops = workload.operations / result.seconds * 1e-9;
  result.tokens_per_second = static_cast<double>(workload.tokens) / result.seconds;
  result.gbs = workload.bytes / result.seconds * 1e-9;
  return result;
}

}  // namespace attend::cli
