// Training on a GPU: on the one that ATTEND_TEST_DEVICE names (cuda), else on the pretend GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/backend/devices.h"
#include "attend/io/files.h"
#include "attend/models/gpt.h"
#include "attend/models/registry.h"
#include "attend/tensor/creation.h"
#include "attend/train/trainer.h"
#include "testing/pretend_device.h"
#include "train/training_step.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::labelled_letters;
using testing::periodic_text;
using testing::reversed_digits;
using testing::TemporaryFolder;
using testing::tiny_job;
using testing::trained_files;

Device gpu() {
  const char* name = std::getenv("ATTEND_TEST_DEVICE");
  return name != nullptr ? parse_device(name) : testing::pretend_device();
}

/// Steps run kernel by kernel as long as this lives.
class WithoutGraphs {
 public:
  WithoutGraphs() { setenv("ATTEND_GRAPHS", "off", 1); }
  ~WithoutGraphs() { unsetenv("ATTEND_GRAPHS"); }
};

struct Case {
  std::string name, architecture;
  CorpusKind kind = CorpusKind::tsv;
  std::string text;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class DeviceTraining : public ::testing::TestWithParam<Case> {
 protected:
  TrainingJob job(int64_t steps = 20) {
    TrainingJob result =
        tiny_job(GetParam().architecture, GetParam().kind, testing::save(folder_, "corpus", GetParam().text));
    result.model["dropout"] = "0.1";
    result.training.label_smoothing = GetParam().kind == CorpusKind::text ? 0 : 0.1;
    result.training.steps = steps;
    result.training.validate_every = 9;
    result.training.log_every = 4;
    result.training.schedule = ScheduleKind::cosine;
    result.training.warmup = 3;
    if (GetParam().kind == CorpusKind::text) result.training.batch = 4;
    return result;
  }
  TrainingOutcome train(const TrainingJob& job, const std::string& name, Device device) {
    TrainingFolder made = TrainingFolder::create(job, folder_.file(name), true);
    made.to(device);
    return made.run({.note = [this](const std::string& note) { notes_ += note + '\n'; }});
  }
  void expect_same(const std::string& got, const std::string& expected) const {
    const auto a = trained_files(folder_.file(got)), b = trained_files(folder_.file(expected));
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, content] : b) EXPECT_TRUE(a.at(name) == content) << name << " differs";
  }

  const TemporaryFolder folder_;
  std::string notes_;
};

TEST_P(DeviceTraining, CapturedStepsGiveTheBitsOfSingleKernels) {
  for (const int64_t accumulate : {1, 2}) {
    TrainingJob with = job();
    with.training.accumulate = accumulate;
    const TrainingOutcome captured = train(with, "captured", gpu());
    EXPECT_EQ(notes_, "");
    EXPECT_GE(captured.gpu.graph_launches, 5u);
    const WithoutGraphs without;
    const TrainingOutcome single = train(with, "single", gpu());
    EXPECT_EQ(single.gpu.graph_launches, 0u);
    expect_same("captured", "single");
  }
}

TEST_P(DeviceTraining, RepeatsGiveTheSameBits) {
  train(job(50), "first", gpu());
  for (int i = 0; i < 3; ++i) {
    train(job(50), "again", gpu());
    expect_same("again", "first");
  }
}

TEST_P(DeviceTraining, ResumesBitForBit) {
  train(job(), "whole", gpu());
  TrainingFolder::create(job(), folder_.file("parts"), false);
  for (const int64_t last : {3, 9, 14, 20}) {
    TrainingFolder parts = TrainingFolder::open(folder_.file("parts"));
    parts.to(gpu());
    std::atomic<bool> stop{false};
    parts.run({.stepped = [&](int64_t step) { stop = step == last; }}, &stop);
  }
  expect_same("parts", "whole");
}

/// Without dropout: a GPU pads batches to other shapes, in which dropout has other masks.
TEST_P(DeviceTraining, TheLossesAreThoseOfTheCpu) {
  TrainingJob plain = job();
  plain.model["dropout"] = "0";
  plain.training.log_every = 1;
  train(plain, "cpu", kCpu);
  train(plain, "gpu", gpu());
  std::vector<double> losses[2];
  for (const int side : {0, 1}) {
    for (const auto& line : testing::journal(folder_.file(side == 0 ? "cpu" : "gpu"))) {
      if (line.contains("lr")) losses[side].push_back(line["loss"]);
    }
  }
  ASSERT_EQ(losses[0].size(), 20u);
  ASSERT_EQ(losses[1].size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(losses[1][i] / losses[0][i], 1, 1e-4) << "step " << i + 1;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTraining,
                         ::testing::Values(Case{"Transformer", "transformer", CorpusKind::tsv, reversed_digits(60)},
                                           Case{"Gpt", "gpt", CorpusKind::text, periodic_text(40)},
                                           Case{"Classifier", "encoder", CorpusKind::labelled, labelled_letters(60)},
                                           Case{"Masked", "encoder", CorpusKind::text, periodic_text(40)},
                                           Case{"Rnn", "rnn-attention", CorpusKind::tsv, reversed_digits(60)}),
                         [](const auto& one) { return one.param.name; });

/// Batches of a fixed number of rows and of any length.
class Steps {
 public:
  explicit Steps(double dropout = 0) {
    Rng rng{3, 0};
    model_ =
        Gpt::create({.vocab_size = 11, .context = 80, .dim = 16, .heads = 2, .layers = 1, .dropout = dropout}, rng);
    model_->to(gpu());
    updater_.emplace(model_->parameters(), TrainingOptions{});
    step_.emplace(model_->parameters(), *updater_,
                  TrainingStepOptions{.max_norm = 1, .note = [this](const std::string& note) { notes += note; }});
  }
  MicroBatch batch(int64_t index, int64_t length) const {
    std::vector<int64_t> ids, labels;
    for (int64_t i = 0; i < 2 * length; ++i) {
      ids.push_back((3 * index + i * i) % 11);
      labels.push_back(i % 3 == 0 ? -100 : (5 * index + 2 * i) % 11);
    }
    return {.tokens = 2 * length,
            .inputs = {{tensor(ids, {2, length}), 11}, {tensor(labels, {2, length}), 11, true}},
            .loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
              if (reads_back) inputs[0].to_vector<int64_t>();
              return model_->head().loss(model_->hidden(inputs[0], pass), inputs[1]);
            }};
  }
  Tensor run(int64_t index, int64_t length) { return step_->run({batch(index, length)}, 1e-3, rng_); }
  Tensor run(const MicroBatch& batch) { return step_->run({batch}, 1e-3, rng_); }

  std::string notes;
  bool reads_back = false;

 private:
  std::unique_ptr<Gpt> model_;
  std::optional<Updater> updater_;
  std::optional<TrainingStep> step_;
  Rng rng_{5, 0};
};

TEST(DeviceStep, IsOneLaunchAndWaitsForNothing) {
  Steps steps(0.1);
  steps.run(0, 8), steps.run(1, 8);
  const DeviceCounters before = device_counters();
  for (int64_t i = 2; i < 12; ++i) steps.run(i, 8);
  const DeviceCounters after = device_counters();
  EXPECT_EQ(after.graph_launches - before.graph_launches, 10u);
  EXPECT_EQ(after.launches - before.launches, 0u);
  EXPECT_EQ(after.synchronizations - before.synchronizations, 0u);
}

/// Also kernel by kernel, a step waits for nothing.
TEST(DeviceStep, WithoutAGraphWaitsForNothing) {
  const WithoutGraphs without;
  Steps steps(0.1);
  steps.run(0, 8);
  const DeviceCounters before = device_counters();
  for (int64_t i = 1; i < 5; ++i) steps.run(i, 8);
  EXPECT_EQ(device_counters().synchronizations, before.synchronizations);
  EXPECT_GT(device_counters().launches, before.launches + 40);
}

/// Graphs of many shapes share memory, and the least recently used are forgotten.
TEST(DeviceStep, ManyShapesGiveTheBitsOfSingleKernels) {
  std::vector<double> values[2];
  for (const int side : {0, 1}) {
    std::optional<WithoutGraphs> without;
    if (side == 1) without.emplace();
    Steps steps(0.1);
    for (int64_t i = 0; i < 300; ++i) {
      const Tensor result = steps.run(i, i < 150 ? 1 + i % 40 : 1 + i % 75);
      for (const double value : result.to_vector<double>()) values[side].push_back(value);
    }
    EXPECT_EQ(steps.notes, "");
  }
  EXPECT_TRUE(values[0] == values[1]);
}

TEST(DeviceStep, ThatCannotBeCapturedRunsKernelByKernel) {
  Steps steps, plain;
  steps.reads_back = true;
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(steps.run(i, 8).to_vector<double>(), plain.run(i, 8).to_vector<double>());
  }
  EXPECT_EQ(steps.notes,
            "A training step cannot be captured and runs kernel by kernel: memory.download: not possible while a graph "
            "is captured");
}

TEST(DeviceStep, ChecksItsInputs) {
  Steps steps;
  MicroBatch bad = steps.batch(0, 8);
  bad.inputs[0].values.data<int64_t>()[3] = 11;
  try {
    steps.run(bad);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "training step: an input has the value 11, expected less than 11");
  }
  bad.inputs[0].values.data<int64_t>()[3] = -100;
  EXPECT_THROW(steps.run(bad), ShapeError);
}

}  // namespace
}  // namespace attend
