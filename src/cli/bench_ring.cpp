#include "cli/bench_ring.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "attend/autograd/autograd.h"
#include "attend/base/threads.h"
#include "attend/io/json.h"
#include "attend/ops/attention.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "cli/train_print.h"
#include "distributed/group.h"
#include "ops/ring_attention.h"

namespace attend::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kCheckedRows = 16;  // of each chunk
constexpr double kMiB = 1 << 20;

enum class Input : uint64_t { q, k, v, dy };

/// The values of a chunk, which every process can compute.
Tensor chunk_values(const RingBenchOptions& options, PositionRange chunk, Input input) {
  const auto stream = static_cast<uint64_t>(chunk.begin) * 4 + static_cast<uint64_t>(input);
  return normal({1, options.heads, chunk.size(), options.dim}, 0, 1, {1, stream}, {DType::f32, kCpu});
}

Tensor part_values(const RingBenchOptions& options, const ContextPart& part, Input input) {
  const auto [early, late] = part.chunks();
  return concat({chunk_values(options, early, input), chunk_values(options, late, input)}, 2);
}

/// The values of all positions before the end of a chunk.
Tensor values_until(const RingBenchOptions& options, const ContextPart& part, int64_t end, Input input) {
  std::vector<PositionRange> chunks;
  for (int rank = 0; rank < part.group().size(); ++rank)
    std::ranges::copy(part.chunks(rank), std::back_inserter(chunks));
  std::ranges::sort(chunks, {}, &PositionRange::begin);
  std::vector<Tensor> values;
  for (const PositionRange& chunk : chunks) {
    if (chunk.end <= end && chunk.size() > 0) values.push_back(chunk_values(options, chunk, input));
  }
  return concat(values, 2);
}

/// One direction of the pass: the slowest process, and the times of all rings.
struct Phase {
  double seconds = 0, busy = 0, exposed = 0;
  double hidden() const { return busy > 0 ? 1 - std::min(exposed / busy, 1.0) : 1; }
};

template <class Work>
Phase timed(const ContextPart& part, Work&& work) {
  part.times() = {};
  part.group().barrier();
  const auto start = Clock::now();
  work();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::vector<double> all =
      distributed::all_gather(part.group(), std::vector{seconds, part.times().busy, part.times().exposed});
  Phase phase;
  for (size_t i = 0; i < all.size(); i += 3) {
    phase.seconds = std::max(phase.seconds, all[i]);
    phase.busy += all[i + 1];
    phase.exposed += all[i + 2];
  }
  return phase;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// The largest difference of the last rows of each chunk from attention to all keys, as a share of the largest value of
/// all rows: that of the output, and that of the gradient of the queries.
std::pair<double, double> differences(const RingBenchOptions& options, const ContextPart& part, const Tensor& y,
                                      const Tensor& dq) {
  std::vector<double> found{0, 0, largest(y.to_vector<double>()), largest(dq.to_vector<double>())};
  int64_t first = 0;
  for (const PositionRange& chunk : part.chunks()) {
    first += chunk.size();
    const int64_t rows = std::min(kCheckedRows, chunk.size());
    const auto last = [&](const Tensor& x) { return slice(x, 2, x.dim(2) - rows, x.dim(2)).clone(); };
    const Tensor q = parameter(last(chunk_values(options, chunk, Input::q)));
    const Tensor expected =
        attention(q, values_until(options, part, chunk.end, Input::k), values_until(options, part, chunk.end, Input::v),
                  {.causal = true, .alignment = Alignment::bottom_right});
    backward(expected, last(chunk_values(options, chunk, Input::dy)));
    size_t at = 0;
    for (const auto& [got, wanted] : {std::pair{y, expected.detach()}, {dq, grad(q)}}) {
      const auto a = slice(got, 2, first - rows, first).clone().to_vector<double>(), b = wanted.to_vector<double>();
      std::vector<double> errors(a.size());
      std::ranges::transform(a, b, errors.begin(), std::minus());
      found[at] = std::max(found[at], largest(errors));
      ++at;
    }
  }
  const std::vector<double> all = distributed::all_gather(part.group(), found);
  std::vector<double> most(4, 0);
  for (size_t i = 0; i < all.size(); ++i) most[i % 4] = std::max(most[i % 4], all[i]);
  return {most[0] / most[2], most[1] / most[3]};
}

struct Report {
  Phase forward, backward;
  double part_bytes = 0, extra_bytes = 0;  // of a process: inputs and results; memory beyond them
  std::pair<double, double> differences;
};

Report measured(const RingBenchOptions& options, const ContextPart& part) {
  Report report;
  const size_t before = memory_stats().live_bytes;
  const Tensor q = parameter(part_values(options, part, Input::q)), k = parameter(part_values(options, part, Input::k)),
               v = parameter(part_values(options, part, Input::v)), dy = part_values(options, part, Input::dy);
  reset_peak_memory();
  Tensor y, output;
  report.forward = timed(part, [&] { y = ring_attention(q, k, v, {.causal = true}, part); });
  output = y.detach();
  report.backward = timed(part, [&] { backward(y, dy); });
  y = {};
  const MemoryStats memory = memory_stats();
  const auto most = [&](double value) {
    return std::ranges::max(distributed::all_gather(part.group(), std::vector{value}));
  };
  report.part_bytes = most(static_cast<double>(memory.live_bytes - before));
  report.extra_bytes = most(static_cast<double>(memory.peak_bytes - memory.live_bytes));
  if (options.check) report.differences = differences(options, part, output, grad(q));
  return report;
}

/// Two products of 2 · dim operations for each visible pair; the backward pass has five instead of two.
double operations(const RingBenchOptions& options) {
  const auto tokens = static_cast<double>(options.tokens);
  return 4.0 * static_cast<double>(options.heads * options.dim) * tokens * (tokens + 1) / 2;
}

void print(const RingBenchOptions& options, const Report& report, int processes) {
  const auto line = [&](const char* name, const Phase& phase, double work) {
    std::printf("%s: %.3f s, %.1f GFLOP/s in all; ring %.3f s per process, %.0f %% of it hidden\n", name, phase.seconds,
                work / phase.seconds / 1e9, phase.busy / processes, 100 * phase.hidden());
  };
  std::cout << "ring attention: " << grouped(static_cast<double>(options.tokens)) << " tokens over " << processes
            << (processes == 1 ? " process, " : " processes, ")
            << grouped(std::ceil(static_cast<double>(options.tokens) / processes)) << " each, " << options.heads
            << (options.heads == 1 ? " head of " : " heads of ") << options.dim << ", " << threads()
            << (threads() == 1 ? " thread each" : " threads each") << std::endl;
  line("forward", report.forward, operations(options));
  line("backward", report.backward, 2.5 * operations(options));
  std::printf("memory per process: %.1f MiB of inputs and results, %.1f MiB beyond them\n", report.part_bytes / kMiB,
              report.extra_bytes / kMiB);
  if (options.check) {
    std::printf("difference from one process: output %.1e, gradient of queries %.1e of the largest value\n",
                report.differences.first, report.differences.second);
  }
}

Json to_json(const RingBenchOptions& options, const Report& report, int processes) {
  const auto phase = [](const Phase& p, double work) {
    return Json{{"seconds", p.seconds},
                {"gflops", work / p.seconds / 1e9},
                {"ring_seconds", p.busy},
                {"ring_exposed_seconds", p.exposed},
                {"hidden_share", p.hidden()}};
  };
  Json json{{"tokens", options.tokens},
            {"heads", options.heads},
            {"dim", options.dim},
            {"processes", processes},
            {"threads", threads()},
            {"forward", phase(report.forward, operations(options))},
            {"backward", phase(report.backward, 2.5 * operations(options))},
            {"part_bytes", report.part_bytes},
            {"extra_bytes", report.extra_bytes}};
  if (options.check) {
    json["output_difference"] = report.differences.first;
    json["gradient_difference"] = report.differences.second;
  }
  return json;
}

}  // namespace

void run_ring_bench(const RingBenchOptions& options) {
  distributed::Group& group = distributed::world();
  const ContextPart part(group, options.tokens);
  const Report report = measured(options, part);
  if (group.rank() != 0) return;
  if (options.json) {
    std::cout << to_json(options, report, group.size()).dump(2) << '\n';
  } else {
    print(options, report, group.size());
  }
  std::fflush(stdout);
}

}  // namespace attend::cli
