#include "train/journal.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "attend/base/error.h"
#include "attend/io/chart.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "io/json_depth.h"
#include "io/regular_file.h"

namespace attend {
namespace {

void add_evaluation(Json& json, const Evaluation& result) {
  json["validation_loss"] = result.loss;
  json["perplexity"] = std::exp(result.loss);
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  if (result.bleu) json["bleu"] = *result.bleu;
  if (result.chrf) json["chrf"] = *result.chrf;
}

std::string line_of(const Json& json) { return json.dump(); }

/// The valid lines, in order. A crash may have truncated the last one.
std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> result;
  for_each_log_line(path, Links::refuse, [&](std::string_view line) {
    if (!is_shallow_json(line)) return;
    Json json = Json::parse_or_null(line);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer()) {
      result.push_back(std::move(json));
    }
  });
  return result;
}

}  // namespace

void Journal::append(const std::string& line) const {
  const Descriptor file = open_for_appending(path());
  const std::string text = line + '\n';
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    require<Error>(written > 0, path(), ": cannot be written: ", std::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

void Journal::add(const StepReport& report) {
  append(line_of({{"step", report.step},
                  {"epoch", report.epoch},
                  {"loss", report.loss},
                  {"lr", report.lr},
                  {"gradient_norm", report.gradient_norm},
                  {"tokens_per_second", report.tokens_per_second},
                  {"seconds", report.seconds}}));
}

void Journal::add(const ValidationReport& report) {
  Json json{{"step", report.step}};
  add_evaluation(json, report.result);
  json["best"] = report.is_best;
  append(line_of(json));
}

void Journal::add(const TrainingOutcome& outcome) {
  Json json{{"step", outcome.step},
            {"done", true},
            {"seconds", outcome.seconds},
            {"tokens_per_second", outcome.tokens_per_second},
            {"best_step", outcome.best_step}};
  add_evaluation(json, outcome.result);
  append(line_of(json));
}

void Journal::forget_after(int64_t step) {
  std::string kept;
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path(), error))) return;
  for (const Json& json : lines_of(path())) {
    if (json["step"].get<int64_t>() <= step && !json.contains("done")) kept += line_of(json) + '\n';
  }
  write_file(path(), kept);
}

void Journal::draw() const {
  ChartSeries training{.name = "training"}, validation{.name = "validation"};
  for (const Json& json : lines_of(path())) {
    const auto step = json["step"].get<double>();
    const auto add_point = [&](ChartSeries& series, const char* key) {
      if (!json.contains(key) || !json[key].is_number() || json.contains("done")) return;
      series.points.push_back({step, json[key].get<double>()});
    };
    add_point(training, "loss");
    add_point(validation, "validation_loss");
  }
  if (training.points.size() + validation.points.size() < 2) return;
  write_file(folder_ + "/loss.svg", line_chart({.title = "Loss",
                                                .x_label = "step",
                                                .y_label = "loss",
                                                .series = {std::move(training), std::move(validation)}}));
}

}  // namespace attend
