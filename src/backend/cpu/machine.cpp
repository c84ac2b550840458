#include "backend/cpu/machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "attend/base/threads.h"
#include "backend/cpu/instruction_set.h"
#include "backend/cpu/int8/int8.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/cpu/memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/machine.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `steps` rounds of 12 independent multiply-adds: enough to keep two units with a latency of four cycles busy, using
/// 16 registers. Each chain starts from its own value; otherwise the compiler would compute one and copy it. Returns
/// the number of floating-point operations and stores the sum in `sink`, so that the compiler cannot remove the work.
double SpinFma(int64_t steps, float* sink) {
  const hn::ScalableTag<float> d;
  constexpr int kChains = 12;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, sink[0] * 1e-3f + 1e-3f);
  hn::Vec<decltype(d)> chain[kChains];
  HWY_UNROLL(12) for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(d, sink[0] + 0.1f * static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
    HWY_UNROLL(12) for (int i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(chain[i], factor, term);
  }
  auto sum = hn::Zero(d);
  HWY_UNROLL(12) for (int i = 0; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  sink[0] = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(steps);
}

/// The sum of `count` floats in eight chains. `count` is a multiple of eight vectors.
float SumFloats(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kChains = 8;
  hn::Vec<decltype(d)> chain[kChains];
  HWY_UNROLL(8) for (int i = 0; i < kChains; ++i) chain[i] = hn::Zero(d);
  for (int64_t at = 0; at + kChains * lanes <= count; at += kChains * lanes) {
    HWY_UNROLL(8) for (int i = 0; i < kChains; ++i) chain[i] = hn::Add(chain[i], hn::Load(d, x + at + i * lanes));
  }
  auto sum = hn::Zero(d);
  HWY_UNROLL(8) for (int i = 0; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(SpinFma);
HWY_EXPORT(SumFloats);

namespace {

using Clock = std::chrono::steady_clock;

/// The best rate of several tries, in units of 10⁹ `work` per second.
template <class F>
double best_rate(int tries, double work, F&& run) {
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const auto begin = Clock::now();
    run();
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    best = std::max(best, work / seconds.count() * 1e-9);
  }
  return best;
}

/// Length of a measurement. A try takes 1 to 2 ms: far longer than a sleeping worker takes to wake, and short enough to
/// fall between two time slices of another process.
struct Spins {
  int64_t steps = 100000;
  int tries = 10;
};

/// The rate of spin(steps, sink) on all threads, from the number of operations that it returns.
template <class T, class F>
double spin_peak(F&& spin, Spins spins = {}) {
  const int tasks = 8 * threads();  // several per thread, so that one delayed thread does not delay the others
  std::unique_ptr<T[]> sinks = std::make_unique<T[]>(static_cast<size_t>(tasks) * 16);
  const double operations = spin(1, sinks.get()) * static_cast<double>(spins.steps) * tasks;
  return best_rate(spins.tries, operations,
                   [&] { parallel_for(tasks, [&](int64_t task) { spin(spins.steps, sinks.get() + task * 16); }); });
}

constexpr int64_t kPiece = int64_t{1} << 18;  // floats per task: 1 MiB

/// Twice the size of the last-level cache, at least 256 and at most 512 MiB. Filled once and kept for later
/// measurements.
class ColdBuffer {
 public:
  ColdBuffer() : pieces_(wanted_pieces()), floats_(pieces_ * kPiece) {
    parallel_for(pieces_, [&](int64_t piece) { std::fill_n(floats_.data() + piece * kPiece, kPiece, 1.0f); });
  }
  int64_t pieces() const { return pieces_; }
  const float* piece(int64_t index) const { return floats_.data() + index * kPiece; }

 private:
  static int64_t wanted_pieces() {
    const int64_t cache = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
    return std::clamp<int64_t>(2 * cache >> 20, 256, 512);
  }
  int64_t pieces_;
  Scratch<float> floats_;
};

}  // namespace

double fma_peak_gflops() {
  instruction_set();
  return spin_peak<float>(HWY_DYNAMIC_DISPATCH(SpinFma));
}

double bf16_peak_gflops() {
  const Bf16Unit* unit = bf16_unit();
  if (unit == nullptr) return fma_peak_gflops();
  return spin_peak<float>([unit](int64_t steps, float* sink) {
    unit->begin();
    const double operations = unit->spin(steps, sink);
    unit->end();
    return operations;
  });
}

double int8_peak_gops() {
  return spin_peak<int32_t>(int8_unit().spin, {.steps = 40000, .tries = 25});  // a step has twice as many sums
}

double read_bandwidth_gbs() {
  instruction_set();
  static const ColdBuffer buffer;
  std::unique_ptr<float[]> sums = std::make_unique<float[]>(static_cast<size_t>(buffer.pieces()));
  const double bytes = static_cast<double>(buffer.pieces() * kPiece) * sizeof(float);
  constexpr int kPasses = 3;
  const auto begin = Clock::now();
  for (int pass = 0; pass < kPasses; ++pass) {
    parallel_for(buffer.pieces(), [&](int64_t piece) {
      sums[static_cast<size_t>(piece)] = HWY_DYNAMIC_DISPATCH(SumFloats)(buffer.piece(piece), kPiece);
    });
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return kPasses * bytes / seconds.count() * 1e-9;
}

}  // namespace attend::cpu
#endif
