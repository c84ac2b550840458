#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/io/chart.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "attend/train/job.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/shared_options.h"
#include "train/cluster_plan.h"
#include "train/memory_estimate.h"

namespace attend::cli {
namespace {

constexpr const char* kPlanExamples = R"(
Examples:
  attend plan model --processes 64 --link 25
  attend plan model --processes 64 --link 100 --per-host 8 --wire bf16 --json
  attend plan model --link 10 --svg scaling.svg          efficiency for 8 to 1,024 processes on 10, 25 and 100 Gbit/s

The time of a batch comes from the log of the model folder, which one process has trained for some steps, unless
--batch-seconds gives it. The cost model is in docs/clusters.md: bytes, latency, and overlap with the backward pass.)";

struct PlanArguments {
  std::string model, svg, wire = "f32", shard = "none";
  int64_t processes = 8, per_host = 1, batches = 1, busy_threads = 0;
  double link = 25, latency = 20, batch_seconds = 0;
  bool json = false;
};

/// Seconds per batch between the first and the last report of a training log.
double logged_batch_seconds(const std::string& folder, int64_t accumulate) {
  double first_step = 0, first_seconds = 0, step = 0, seconds = 0;
  const std::string text = read_file(folder + "/training.jsonl", int64_t{1} << 30);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const Json line = Json::parse_or_null(text.substr(at, end - at));
    at = end + 1;
    if (!line.is_object() || !line.contains("loss") || !line.contains("seconds")) continue;
    step = line["step"].get<double>(), seconds = line["seconds"].get<double>();
    if (first_step == 0) first_step = step, first_seconds = seconds;
  }
  if (step == first_step) first_step = first_seconds = 0;  // a single report
  require<Error>(step > first_step && seconds > first_seconds, folder,
                 ": the log has no step times; train some steps, or give --batch-seconds");
  return (seconds - first_seconds) / (step - first_step) / static_cast<double>(accumulate);
}

ClusterOptions options_of(const PlanArguments& arguments, const TrainingFolder& folder) {
  double parameters = 0;
  for (const auto& [name, tensor] : folder.model().parameters()) parameters += static_cast<double>(tensor.numel());
  const double batch = arguments.batch_seconds > 0
                           ? arguments.batch_seconds
                           : logged_batch_seconds(arguments.model, folder.training().accumulate);
  return {.parameters = parameters,
          .compute_seconds = batch * static_cast<double>(arguments.batches),
          .processes = arguments.processes,
          .per_host = arguments.per_host,
          .link_gbit = arguments.link,
          .latency_seconds = arguments.latency * 1e-6,
          .busy_threads = arguments.busy_threads,
          .wire = arguments.wire == "bf16" ? WireType::bf16 : WireType::f32,
          .shard = arguments.shard == "optimizer" ? ShardedState::optimizer : ShardedState::none};
}

/// Efficiency over the number of processes, for three links.
void draw(const std::string& path, ClusterOptions options) {
  Chart chart{.title = "Efficiency of training on many processes",
              .x_label = "processes",
              .y_label = "efficiency",
              .series = {},
              .log_x = true,
              .y_min = 0,
              .y_max = 1};
  for (const double link : {10.0, 25.0, 100.0}) {
    ChartSeries series{.name = std::to_string(static_cast<int>(link)) + " Gbit/s"};
    for (options.processes = 8; options.processes <= 1024; options.processes *= 2) {
      options.link_gbit = link;
      series.points.push_back({static_cast<double>(options.processes), cluster_cost(options).efficiency});
    }
    chart.series.push_back(std::move(series));
  }
  write_file(path, line_chart(chart));
}

void run_plan(const PlanArguments& arguments) {
  const TrainingFolder folder = TrainingFolder::read(arguments.model);
  const ClusterOptions options = options_of(arguments, folder);
  const ClusterCost cost = cluster_cost(options);
  TrainingOptions training = folder.training();
  training.accumulate = arguments.batches * arguments.processes;
  training.wire = options.wire, training.shard = options.shard;
  const MemoryEstimate memory =
      estimate_memory(folder.model(), training, largest_batch(folder.model(), folder.data(), training), kCpu,
                      static_cast<int>(arguments.processes));
  if (!arguments.svg.empty()) draw(arguments.svg, options);
  if (arguments.json) {
    std::cout << Json{{"processes", arguments.processes},
                      {"link_gbit", arguments.link},
                      {"parameters", options.parameters},
                      {"compute_seconds", options.compute_seconds},
                      {"exchange_seconds", cost.exchange_seconds},
                      {"exposed_seconds", cost.exposed_seconds},
                      {"shared_seconds", cost.shared_seconds},
                      {"step_seconds", cost.step_seconds},
                      {"efficiency", cost.efficiency},
                      {"memory_bytes", memory.total()}}
                     .dump()
              << '\n';
    return;
  }
  std::printf("%lld processes, %.3g Gbit/s per host, %.4g million parameters\n",
              static_cast<long long>(arguments.processes), arguments.link, options.parameters / 1e6);
  std::printf("step        %10.1f ms\n  compute   %10.1f ms\n  exchange  %10.1f ms, %.0f %% of it hidden\n",
              1e3 * cost.step_seconds, 1e3 * options.compute_seconds, 1e3 * cost.exchange_seconds,
              cost.exchange_seconds > 0 ? 100 * (1 - cost.exposed_seconds / cost.exchange_seconds) : 0.0);
  if (cost.shared_seconds > 0) std::printf("  shared    %10.1f ms\n", 1e3 * cost.shared_seconds);
  std::printf("efficiency  %10.1f %%\nmemory      %10.1f MiB per process\n", 100 * cost.efficiency,
              memory.total() / (1 << 20));
}

}  // namespace

void add_plan(Command& app) {
  Command* command = app.add_subcommand("plan", "Predict the speed of training on many processes");
  const auto arguments = std::make_shared<PlanArguments>();
  command->add_option("model", arguments->model, "Model folder of attend train")->required()->type_name("MODEL");
  command->add_option("--processes", arguments->processes, "Number of processes (default: 8)")
      ->check(whole_number(1, 1048576))
      ->type_name("N");
  command->add_option("--link", arguments->link, "Bandwidth of a host's link in Gbit/s, each way (default: 25)")
      ->check(number_between(0.001, 1e6))
      ->type_name("N");
  command->add_option("--per-host", arguments->per_host, "Processes that share a link (default: 1)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
  command->add_option("--latency", arguments->latency, "Time of a small message in microseconds (default: 20)")
      ->check(number_between(0, 1e6))
      ->type_name("N");
  command
      ->add_option(
          "--busy-threads", arguments->busy_threads,
          "Threads of a process if they use all cores of the host, which the exchange then shares (default: 0: "
          "a core is free)")
      ->check(whole_number(0, 4096))
      ->type_name("N");
  command->add_option("--accumulate", arguments->batches, "Batches per step and process (default: 1)")
      ->check(whole_number(1, 65536))
      ->type_name("N");
  command
      ->add_option("--batch-seconds", arguments->batch_seconds,
                   "Seconds that a process takes for a batch (default: from the model's training log)")
      ->check(number_between(1e-9, 1e9))
      ->type_name("N");
  command->add_option("--wire", arguments->wire, "Type of gradients between processes: f32 or bf16 (default: f32)")
      ->check(one_of({"f32", "bf16"}))
      ->type_name("NAME");
  command->add_option("--shard", arguments->shard, "State that is divided: none or optimizer (default: none)")
      ->check(one_of({"none", "optimizer"}))
      ->type_name("NAME");
  command->add_option("--svg", arguments->svg, "File for a chart of the efficiency for 8 to 1,024 processes")
      ->type_name("FILE");
  add_json(*command, arguments->json, "Print one JSON object");
  command->footer(kPlanExamples);
  command->callback([arguments] { run_plan(*arguments); });
}

}  // namespace attend::cli
