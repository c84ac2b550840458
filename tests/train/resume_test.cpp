// Stopping and resuming changes nothing: every file of the model folder has the same bytes, except for times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/io/files.h"
#include "attend/models/registry.h"
#include "attend/ops/precision.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::reversed_digits;
using testing::TemporaryFolder;
using testing::tiny_job;
using testing::trained_files;

/// These tests write a thousand small files, each with fsync: much faster on a file system in memory.
[[maybe_unused]] const bool kInMemory = access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", 0) == 0;

/// Requests a stop in the middle of a step.
class StoppingObjective final : public Objective {
 public:
  StoppingObjective(const Objective& inner, int64_t last_batch) : inner_(inner), last_batch_(last_batch) {}
  int64_t batches_per_epoch() const override { return inner_.batches_per_epoch(); }
  MicroBatch batch(int64_t index) const override {
    if (index >= last_batch_) stop = true;
    return inner_.batch(index);
  }
  Evaluation evaluate(bool text) const override { return inner_.evaluate(text); }
  std::vector<Sample> samples(int64_t count) const override { return inner_.samples(count); }

  mutable std::atomic<bool> stop{false};

 private:
  const Objective& inner_;
  int64_t last_batch_;
};

/// Opens the folder as another process would, and trains until a step is complete.
TrainingOutcome train_until(const std::string& folder, int64_t step) {
  const auto model = load_model(folder);
  const Dataset data = open_dataset(folder);
  const TrainingOptions options = training_from(read_file(folder + "/training.json"));
  const auto objective = make_objective(*model, data, options);
  const StoppingObjective stopping(*objective, step * options.accumulate - 1);
  if (step == 0) stopping.stop = true;
  return Trainer(*model, stopping, options, folder).run({}, &stopping.stop);
}

struct Case {
  std::string name, architecture;
  CorpusKind kind = CorpusKind::tsv;
  std::string text;
  Precision precision = Precision::f32;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Resume : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().precision == Precision::bf16 && !has_bf16()) GTEST_SKIP() << "this processor has no bfloat16";
  }
  /// Uses everything that has state: dropout, accumulated gradients, moments, averages, log lines over several steps.
  TrainingJob job() {
    TrainingJob result =
        tiny_job(GetParam().architecture, GetParam().kind, testing::save(folder_, "corpus", GetParam().text));
    result.model["dropout"] = "0.1";
    result.training.label_smoothing = 0.1;
    result.training.batch = 4;
    result.training.accumulate = 2;
    result.training.average = 2;
    result.training.validate_every = 5;
    result.training.log_every = 4;
    result.training.schedule = ScheduleKind::cosine;
    result.training.warmup = 3;
    result.training.precision = GetParam().precision;
    return result;
  }
  std::string at_once(const std::string& name) {
    EXPECT_EQ(TrainingFolder::create(job(), folder_.file(name), false).run().end, TrainingOutcome::End::finished);
    return folder_.file(name);
  }

  const TemporaryFolder folder_;
};

void expect_same(const std::string& got, const std::string& expected) {
  const auto a = trained_files(got), b = trained_files(expected);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, content] : b) {
    ASSERT_TRUE(a.contains(name)) << name;
    EXPECT_TRUE(a.at(name) == content) << name << " differs";
  }
}

/// Compares an uninterrupted run with one thread and a run in parts with two.
TEST_P(Resume, IsBitForBitWhereverItStoppedOnAnyNumberOfThreads) {
  const int before = threads();
  set_threads(1);
  const std::string whole = at_once("whole");
  set_threads(2);
  const auto files = trained_files(whole);
  for (const char* name : {"model.safetensors", "checkpoint.safetensors", "averages/step-000000010.safetensors",
                           "averages/step-000000012.safetensors", "loss.svg", "training.jsonl"}) {
    ASSERT_TRUE(files.contains(name)) << name;
  }
  const std::string parts = folder_.file("parts");
  TrainingFolder::create(job(), parts, false);
  for (const int64_t step : {0, 3, 5, 6, 11}) {  // 5: at a validation; 3, 6 and 11: between two log lines
    const TrainingOutcome outcome = train_until(parts, step);
    EXPECT_EQ(outcome.end, TrainingOutcome::End::interrupted);
    EXPECT_EQ(outcome.step, step);
  }
  for (const char* once_more : {"finishes it", "changes nothing"}) {
    EXPECT_EQ(TrainingFolder::open(parts).run().end, TrainingOutcome::End::finished) << once_more;
    expect_same(parts, whole);
  }
  set_threads(before);
}

/// As after a kill between the two writes: the folder has the weights of a better validation, but an older checkpoint.
TEST_P(Resume, FromACheckpointOlderThanTheModel) {
  const std::string whole = at_once("whole"), parts = folder_.file("parts");
  TrainingFolder::create(job(), parts, false);
  train_until(parts, 0);
  const std::string early = testing::file_text(parts + "/checkpoint.safetensors");
  train_until(parts, 7);
  write_file(parts + "/checkpoint.safetensors", early);
  TrainingFolder::open(parts).run();
  expect_same(parts, whole);
}

INSTANTIATE_TEST_SUITE_P(
    All, Resume,
    ::testing::Values(Case{"Transformer", "transformer", CorpusKind::tsv, reversed_digits(60)},
                      Case{"Rnn", "rnn", CorpusKind::tsv, reversed_digits(60)},
                      Case{"RnnAttention", "rnn-attention", CorpusKind::tsv, reversed_digits(60)},
                      Case{"Gpt", "gpt", CorpusKind::text, testing::periodic_text(40)},
                      Case{"GptInBfloat16", "gpt", CorpusKind::text, testing::periodic_text(40), Precision::bf16},
                      Case{"EncoderLabels", "encoder", CorpusKind::labelled, testing::labelled_letters(60)},
                      Case{"EncoderMasked", "encoder", CorpusKind::text, testing::periodic_text(40)}),
    [](const auto& one) { return one.param.name; });

TEST(EarlyStop, StaysStoppedAfterACrash) {
  const TemporaryFolder folder;
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, testing::save(folder, "corpus", reversed_digits(60)));
  job.training.optimizer = OptimizerKind::sgd;
  job.training.momentum = 0;
  job.training.lr = 1e-30;  // weights do not change, so the validation never improves
  job.training.steps = 50;
  job.training.validate_every = 2;
  job.training.patience = 3;
  const std::string model = folder.file("m");
  const TrainingOutcome outcome = TrainingFolder::create(job, model, false).run();
  EXPECT_EQ(outcome.end, TrainingOutcome::End::stopped_early);
  EXPECT_EQ(outcome.step, 8);
  EXPECT_EQ(outcome.best_step, 2);
  const TrainingOutcome again = TrainingFolder::open(model).run();
  EXPECT_EQ(again.end, TrainingOutcome::End::stopped_early);
  EXPECT_EQ(again.step, 8);
  const TrainingOutcome patient = TrainingFolder::open(model, {{"patience", "5"}}).run();
  EXPECT_EQ(patient.step, 12);
}

TEST(ResumeErrors, DamagedFilesAreNamed) {
  const TemporaryFolder folder;
  const std::string corpus = testing::save(folder, "corpus", reversed_digits(60)), model = folder.file("m");
  TrainingFolder::create(tiny_job("rnn", CorpusKind::tsv, corpus), model, false).run();
  for (const char* name : {"checkpoint.safetensors", "model.safetensors", "config.json", "training.json",
                           "cache/dataset.json", "cache/training.ids", "tokenizer.json"}) {
    const std::string path = model + "/" + name, content = testing::file_text(path);
    for (const std::string& damage : {std::string(), content.substr(0, content.size() / 2), std::string(200, '\xff')}) {
      write_file(path, damage);
      try {
        TrainingFolder::open(model).run();
        ADD_FAILURE() << name << " is damaged, and nobody noticed";
      } catch (const Error& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find(model), std::string::npos) << name << ": " << what;
        EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      }
    }
    write_file(path, content);
  }
  EXPECT_EQ(TrainingFolder::open(model).run().end, TrainingOutcome::End::finished);
}

}  // namespace
}  // namespace attend
