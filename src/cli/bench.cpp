#include "cli/commands.h"

#include <algorithm>
#include <iomanip>
#include <iostream>

#include "attend/backend/devices.h"
#include "attend/base/threads.h"
#include "attend/io/json.h"
#include "backend/cpu/instruction_set.h"
#include "backend/cpu/machine.h"
#include "cli/bench_ring.h"
#include "cli/bench_workload.h"
#include "cli/command_line.h"
#include "cli/shared_options.h"

namespace attend::cli {
namespace {

constexpr const char* kRing = "ring";

struct BenchOptions {
  std::vector<std::string> names;
  bool json = false, list = false, all = false;
  RingBenchOptions ring;
  bool has_ring_options = false;
  ComputeOptions compute;
};

std::vector<Workload> all_workloads(Device device) {
  std::vector<Workload> workloads;
  const auto add = [&](std::vector<Workload> more) { std::ranges::move(more, std::back_inserter(workloads)); };
  add(attention_workloads());
  add(layer_workloads());
  add(training_workloads());
  add(inference_workloads());
  if (device == kCpu) return workloads;
  add(gpu_attention_workloads());
  add(gpu_training_workloads());
  add(gpu_inference_workloads());
  return workloads;
}

std::string names_of(const std::vector<Workload>& workloads) {
  std::string names;
  for (const Workload& workload : workloads) names += (names.empty() ? "" : ", ") + workload.name;
  return names;
}

/// The named workloads in the order of the table; by default all except the slow ones.
std::vector<Workload> chosen(const BenchOptions& options, Device device) {
  std::vector<Workload> workloads = all_workloads(device);
  for (const std::string& name : options.names) {
    if (std::ranges::find(workloads, name, &Workload::name) != workloads.end()) continue;
    throw UsageError("bench: unknown workload '" + name + "'; expected one of " + names_of(workloads) + ", " + kRing);
  }
  std::erase_if(workloads, [&](const Workload& workload) {
    if (options.names.empty()) return workload.slow && !options.all;
    return std::ranges::find(options.names, workload.name) == options.names.end();
  });
  return workloads;
}

std::string bytes_text(size_t bytes) {
  std::ostringstream text;
  const auto kib = static_cast<double>(bytes) / 1024;
  text << std::fixed << std::setprecision(1);
  kib < 1024 ? text << kib << " KiB" : text << kib / 1024 << " MiB";
  return text.str();
}

void print_heading() {
  std::cout << "instruction set: " << cpu::name_of(cpu::instruction_set()) << "\n\n"
            << std::left << std::setw(34) << "workload" << std::right << std::setw(26) << "rate" << std::setw(18)
            << "share" << std::setw(14) << "time" << std::setw(14) << "extra memory" << '\n';
}

void print_row(const Measurement& m) {
  std::ostringstream rate, share, time;
  rate << std::fixed << std::setprecision(1);
  if (m.tokens_per_second > 0) {
    rate << std::setprecision(0) << m.tokens_per_second << " tokens/s";
    if (m.bound == Bound::memory) rate << std::setprecision(1) << ", " << m.gbs << " GB/s";
  } else
    m.bound == Bound::memory ? rate << m.gbs << " GB/s" : rate << m.gflops << " GFLOP/s";
  share << std::fixed << std::setprecision(m.bound == Bound::baseline ? 3 : 2) << m.share;
  share << (m.bound == Bound::memory ? " of bandwidth" : m.bound == Bound::baseline ? " × the time" : " of peak");
  time << std::fixed << std::setprecision(3) << m.seconds * 1e3 << " ms";
  const int wide = m.bound == Bound::baseline ? 19 : 18;  // × is two bytes
  std::cout << std::left << std::setw(34) << m.name << std::right << std::setw(26) << rate.str() << std::setw(wide)
            << share.str() << std::setw(14) << time.str() << std::setw(14) << bytes_text(m.extra_bytes) << std::endl;
}

Json to_json(const Measurement& m) {
  Json row{{"name", m.name}, {"gflops", m.gflops}};
  if (m.bound == Bound::memory) row["gbs"] = m.gbs;
  if (m.tokens_per_second > 0) row["tokens_per_second"] = m.tokens_per_second;
  row["share"] = m.share;
  row["share_of"] = m.bound == Bound::memory ? "bandwidth" : m.bound == Bound::baseline ? "time_without" : "peak";
  row["seconds"] = m.seconds;
  row["extra_bytes"] = m.extra_bytes;
  return row;
}

void run_ring(const BenchOptions& options) {
  if (options.names.size() != 1 || options.list || options.all) {
    throw UsageError("bench: ring cannot be combined with other workloads, --list or --all");
  }
  if (use(options.compute) != kCpu) throw UsageError("bench: ring needs the CPU: add --device cpu");
  RingBenchOptions ring = options.ring;
  ring.json = options.json;
  run_ring_bench(ring);
}

void run_bench(const BenchOptions& options) {
  if (std::ranges::find(options.names, kRing) != options.names.end()) return run_ring(options);
  if (options.has_ring_options) throw UsageError("--tokens, --heads, --dim and --check apply only to bench ring");
  bench_device() = options.list ? device_of(options.compute) : use(options.compute);
  const std::vector<Workload> workloads = chosen(options, bench_device());
  if (options.list) {
    Json list = Json::array();
    for (const Workload& workload : workloads) {
      list.push_back(Json{{"name", workload.name}, {"slow", workload.slow}});
      if (!options.json) std::cout << workload.name << '\n';
    }
    if (options.json) std::cout << list.dump(2) << '\n';
    return;
  }
  const bool on_cpu = bench_device() == kCpu;
  Machine machine;
  if (on_cpu) machine = {cpu::fma_peak_gflops(), cpu::read_bandwidth_gbs()};
  Json results = Json::array();
  if (!options.json) print_heading();
  for (const Workload& workload : workloads) {
    const Measurement measured = measure(workload, machine);
    options.json ? results.push_back(to_json(measured)) : print_row(measured);
  }
  if (options.json) {
    const Json report{{"peak_gflops", machine.peak_gflops},
                      {"bf16_peak_gflops", machine.bf16_gflops},
                      {"int8_peak_gops", machine.int8_gops},
                      {"bandwidth_gbs", machine.bandwidth_gbs},
                      {"threads", threads()},
                      {"instruction_set", cpu::name_of(cpu::instruction_set())},
                      {"results", results}};
    std::cout << report.dump(2) << '\n';
    return;
  }
  std::cout << "\nmachine, " << threads() << (threads() == 1 ? " thread: " : " threads: ") << std::fixed
            << std::setprecision(1) << machine.peak_gflops << " GFLOP/s peak (f32 multiply-adds), "
            << machine.bandwidth_gbs << " GB/s read\n";
  if (machine.bf16_gflops > 0) std::cout << "bf16: " << machine.bf16_gflops << " GFLOP/s peak\n";
  if (machine.int8_gops > 0) std::cout << "int8: " << machine.int8_gops << " Gop/s peak\n";
}

}  // namespace

void add_bench(Command& app) {
  auto options = std::make_shared<BenchOptions>();
  Command* command = app.add_subcommand("bench", "Measure workloads against the peak speed of this machine");
  command->add_option("workloads", options->names, "Workloads to run (default: all except the slow ones)")
      ->type_name("NAME");
  add_json(*command, options->json, "Print one JSON object");
  command->add_flag("--list", options->list,
                    "Print the names of the workloads and exit; --json also marks the slow ones");
  command->add_flag("--all", options->all, "Include the slow workloads");
  add_compute_options(*command, options->compute);
  const auto add_size = [&](const char* name, int64_t& value, const char* help, uint64_t most) {
    command
        ->add_option(
            name,
            [options, &value](const std::string& text) {
              value = std::stoll(text);
              options->has_ring_options = true;
            },
            help)
        ->check(whole_number(1, most))
        ->group("Ring attention")
        ->type_name("N");
  };
  add_size("--tokens", options->ring.tokens, "Length of the sequence (default: 262144)", uint64_t{1} << 32);
  add_size("--heads", options->ring.heads, "Number of heads (default: 1)", 1024);
  add_size("--dim", options->ring.dim, "Width of a head (default: 64)", 1024);
  command
      ->add_flag(
          "--check", [options] { options->ring.check = options->has_ring_options = true; },
          "Compare some rows with attention in one process")
      ->group("Ring attention");
  command->footer(
      "\nThe share is the fraction of the machine's peak, as the median of several rounds. The peak is measured before "
      "and after\n"
      "each round; the round is compared with the higher of the two, or with the mean of two bandwidths. Extra memory "
      "is memory\n"
      "allocated beyond inputs and results. On a GPU there are more workloads: attend bench --device cuda --list.\n"
      "\nThe environment variable ATTEND_CPU (sse4, avx2, avx512, avx512bf16 or amx) limits every command to that "
      "instruction set.\n"
      "\nExamples:\n"
      "  attend bench attention_forward layer_norm\n"
      "  mpirun -n 4 attend bench ring --tokens 262144    attention to one sequence that four processes divide");
  command->callback([options] { run_bench(*options); });
}

}  // namespace attend::cli
