// The effect of each training option on the log and the files.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attend/base/error.h"
#include "attend/io/files.h"
#include "attend/models/registry.h"
#include "attend/tensor/creation.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::journal;
using testing::TemporaryFolder;
using testing::tiny_job;
using Json = nlohmann::json;

TrainingJob pair_job(const TemporaryFolder& folder) {
  return tiny_job("transformer", CorpusKind::tsv, testing::save(folder, "pairs.tsv", testing::reversed_digits(60)));
}

/// Learning rates by step.
std::map<int64_t, double> rates(const TrainingJob& job, const std::string& folder) {
  TrainingFolder::create(job, folder, true).run();
  std::map<int64_t, double> result;
  for (const Json& line : journal(folder)) {
    if (line.contains("lr")) result[line["step"].get<int64_t>()] = line["lr"].get<double>();
  }
  return result;
}

TEST(TrainerSchedule, TheLogHasTheRatesOfEachSchedule) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.steps = 10;
  job.training.log_every = 1;
  job.training.validate_every = 10;
  job.training.lr = 0.01;
  job.training.lr_end = 0.002;
  job.training.warmup = 4;
  for (const ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::noam}) {
    job.training.schedule = kind;
    const auto lr = rates(job, folder.file("m"));
    ASSERT_EQ(lr.size(), 10u);
    EXPECT_DOUBLE_EQ(lr.at(2), 0.005);
    EXPECT_DOUBLE_EQ(lr.at(4), 0.01);
    const double last = kind == ScheduleKind::constant ? 0.01 : 0.002;
    EXPECT_NEAR(lr.at(10), kind == ScheduleKind::noam ? 0.01 * std::sqrt(0.4) : last, 1e-12);
    if (kind == ScheduleKind::linear || kind == ScheduleKind::cosine) {
      EXPECT_NEAR(lr.at(7), 0.006, 1e-12) << "half way";
    }
  }
  job.training.lr = 0;  // the paper's rate: dim^-½ · min(step^-½, step · warmup^-3/2)
  const auto lr = rates(job, folder.file("m"));
  EXPECT_NEAR(lr.at(1), std::pow(16, -0.5) * std::pow(4, -1.5), 1e-12);
  EXPECT_NEAR(lr.at(10), std::pow(16, -0.5) * std::pow(10, -0.5), 1e-12);
}

TEST(TrainerSchedule, AShortRunReachesThePeakToo) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.steps = 20;
  job.training.log_every = 1;
  job.training.validate_every = 20;
  job.training.warmup = 2000;
  for (const ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::noam}) {
    job.training.schedule = kind;
    job.training.lr = 0.01;
    EXPECT_NEAR(rates(job, folder.file("m")).at(2), 0.01, 1e-12);
  }
  job.training.lr = 0;
  EXPECT_NEAR(rates(job, folder.file("m")).at(2), 1 / std::sqrt(16.0 * 2000), 1e-12);
}

/// Rows of text of different lengths, with a fixed number of rows per batch.
class Rows final : public Objective {
 public:
  Rows(const LanguageModel& model, int64_t rows) : model_(model), rows_(rows) {}
  int64_t batches_per_epoch() const override { return 8 / rows_; }
  MicroBatch batch(int64_t index) const override {
    std::vector<int64_t> ids, labels;
    int64_t tokens = 0;
    for (int64_t row = index * rows_; row < (index + 1) * rows_; ++row) {
      for (int64_t i = 0; i < 8; ++i) {
        const bool is_label = i <= row % 5;
        ids.push_back((3 * row + i * i) % 11);
        labels.push_back(is_label ? (5 * row + 2 * i) % 11 : -100);
        tokens += is_label;
      }
    }
    const Tensor x = tensor<int64_t>(ids, {rows_, 8}), y = tensor<int64_t>(labels, {rows_, 8});
    return {.tokens = tokens,
            .read = 8 * rows_,
            .inputs = {{x, 11}, {y, 11, true}},
            .loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
              return model_.head().loss(model_.hidden(inputs[0], pass), inputs[1]);
            }};
  }
  Evaluation evaluate(bool) const override { return {.loss = 1, .tokens = 1}; }
  std::vector<Sample> samples(int64_t) const override { return {}; }

 private:
  const LanguageModel& model_;
  int64_t rows_;
};

TEST(TrainerAccumulate, TwoBatchesEqualOneTwiceAsLarge) {
  const TemporaryFolder folder;
  std::vector<std::vector<double>> losses, weights;
  for (const int64_t accumulate : {1, 2, 4}) {
    Rng rng{3, 0};
    const auto model = create_model(
        R"({"architecture": "gpt", "vocab_size": 11, "dim": 16, "heads": 2, "layers": 1, "context": 8, "dropout": 0})",
        rng);
    const Rows objective(dynamic_cast<const LanguageModel&>(*model), 4 / accumulate);
    const std::string path = folder.file(std::to_string(accumulate));
    save_model(*model, path);
    TrainingOptions options{.steps = 6, .accumulate = accumulate, .log_every = 1};
    options.optimizer = OptimizerKind::sgd;  // Adam's normalisation would magnify rounding errors
    options.schedule = ScheduleKind::constant;
    options.lr = 0.1;
    options.clip = 0.5;
    Trainer(*model, objective, options, path).run();
    losses.emplace_back();
    for (const Json& line : journal(path)) {
      if (line.contains("lr")) losses.back().push_back(line["loss"]);
    }
    weights.emplace_back();
    const SafetensorsFile checkpoint = SafetensorsFile::open(path + "/checkpoint.safetensors");
    for (const TensorInfo& info : checkpoint.tensors()) {
      const auto values = checkpoint.tensor(info.name).to_vector<double>();
      weights.back().insert(weights.back().end(), values.begin(), values.end());
    }
  }
  ASSERT_EQ(losses[0].size(), 6u);
  EXPECT_LT(losses[0].back(), losses[0].front() - 0.01);
  for (const size_t other : {1u, 2u}) {
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(losses[other][i], losses[0][i], 1e-5);
    ASSERT_EQ(weights[other].size(), weights[0].size());
    for (size_t i = 0; i < weights[0].size(); ++i) EXPECT_NEAR(weights[other][i], weights[0][i], 1e-5);
  }
}

TEST(TrainerStops, EarlyByBleu) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.optimizer = OptimizerKind::sgd;
  job.training.lr = 1e-30;
  job.training.steps = 100;
  job.training.validate_every = 3;
  job.training.patience = 2;
  job.training.stop_on = StopMetric::bleu;
  const TrainingOutcome outcome = TrainingFolder::create(job, folder.file("m"), false).run();
  EXPECT_EQ(outcome.end, TrainingOutcome::End::stopped_early);
  EXPECT_EQ(outcome.step, 9);
  EXPECT_EQ(outcome.best_step, 3);
  int validations = 0;
  for (const Json& line : journal(folder.file("m"))) {
    if (!line.contains("best")) continue;
    ++validations;
    EXPECT_TRUE(line.contains("bleu") && line.contains("chrf")) << line;
  }
  EXPECT_EQ(validations, 3);
}

TEST(TrainerKeeps, TheBestModel) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.steps = 30;
  job.training.validate_every = 2;
  job.training.lr = 0.2;  // far too large, so that the loss goes up and down
  const TrainingOutcome outcome = TrainingFolder::create(job, folder.file("m"), false).run();
  double best = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;
  for (const Json& line : journal(folder.file("m"))) {
    if (line.contains("best") && line["validation_loss"] < best) {
      best = line["validation_loss"];
      best_step = line["step"];
    }
  }
  EXPECT_NE(best_step, 30) << "this test has to have a best model before the last";
  EXPECT_EQ(outcome.best_step, best_step);
  EXPECT_EQ(outcome.result.loss, best);
  EXPECT_EQ(journal(folder.file("m")).back()["validation_loss"].get<double>(), best);
}

TEST(TrainerAverages, TheLastCheckpoints) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.validate_every = 3;
  job.training.average = 3;
  const std::string path = folder.file("m");
  TrainingFolder::create(job, path, false).run();
  std::vector<SafetensorsFile> last;
  for (const char* step : {"06", "09", "12"}) {
    last.push_back(SafetensorsFile::open(path + "/averages/step-0000000" + step + ".safetensors"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + "/averages/step-000000003.safetensors"));
  for (const auto& [name, parameter] : load_model(path)->parameters()) {
    const auto got = parameter.to_vector<double>();
    std::vector<std::vector<double>> values;
    for (const SafetensorsFile& file : last) values.push_back(file.tensor(name).to_vector<double>());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i], static_cast<float>((values[0][i] + values[1][i] + values[2][i]) / 3)) << name;
    }
  }
}

TEST(TrainerFails, WhenTheLossIsNotFiniteAndKeepsTheBestModel) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.optimizer = OptimizerKind::sgd;
  job.training.lr = 1e9;
  job.training.clip = 0;
  job.training.steps = 50;
  job.training.validate_every = 50;
  const std::string path = folder.file("m");
  try {
    TrainingFolder::create(job, path, false).run();
    FAIL() << "a learning rate of 1e9 trained";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is not finite at step"), std::string::npos) << error.what();
  }
  for (const auto& [name, parameter] : load_model(path)->parameters()) {
    for (const float value : parameter.to_vector<float>()) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

/// Whether all tags are closed in the right order.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = xml.find('<', at)) != std::string::npos;) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with('?') || tag.starts_with('!') || tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  return open.empty();
}

TEST(TrainerDraws, TheLossCurve) {
  const TemporaryFolder folder;
  TrainingJob job = pair_job(folder);
  job.training.log_every = 2;
  TrainingFolder::create(job, folder.file("m"), false).run();
  const std::string svg = testing::file_text(folder.file("m/loss.svg"));
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  for (const char* word : {"training", "validation", "step", "loss"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  EXPECT_TRUE(is_well_formed(svg)) << svg;
}

/// A classifier's speed counts the tokens of its texts, not their labels.
TEST(TrainerSpeed, CountsTheTokensOfTheText) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  TrainingFolder made = TrainingFolder::create(
      tiny_job("encoder", CorpusKind::labelled, testing::save(folder, "l", testing::labelled_letters(60))), model,
      false);
  const auto objective = make_objective(made.model(), made.data(), made.training());
  double read = 0, labels = 0;
  for (int64_t i = 0; i < made.training().steps; ++i) {
    const MicroBatch batch = objective->batch(i);
    read += static_cast<double>(batch.read);
    labels += static_cast<double>(batch.tokens);
  }
  EXPECT_EQ(read, 8 * labels) << "six letters between two marks";
  made.run();
  const auto checkpoint = SafetensorsFile::open(model + "/checkpoint.safetensors");
  EXPECT_EQ(std::strtod(checkpoint.metadata().at("tokens").c_str(), nullptr), read);
}

}  // namespace
}  // namespace attend
