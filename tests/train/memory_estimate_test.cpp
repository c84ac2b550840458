// The estimate of memory against the measured peak of a training on the CPU.
#include "train/memory_estimate.h"

#include <gtest/gtest.h>

#include "attend/autograd/autograd.h"
#include "attend/train/objective.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::TemporaryFolder;

struct Case {
  std::string name, architecture;
  CorpusKind kind = CorpusKind::tsv;
  std::map<std::string, std::string> model;
  std::map<std::string, std::string> training;
};

std::vector<Case> cases() {
  const std::map<std::string, std::string> gpt{{"dim", "64"}, {"layers", "4"}, {"heads", "4"}, {"context", "64"}};
  const std::map<std::string, std::string> pairs{
      {"dim", "64"}, {"heads", "4"}, {"ffn_dim", "128"}, {"encoder_layers", "3"}, {"decoder_layers", "3"}};
  const std::map<std::string, std::string> rnn{{"dim", "64"}, {"state_dim", "96"}};
  const auto with = [](std::map<std::string, std::string> all, const std::map<std::string, std::string>& more) {
    for (const auto& [name, value] : more) all[name] = value;
    return all;
  };
  return {
      {"gpt", "gpt", CorpusKind::text, with(gpt, {{"dropout", "0"}}), {{"batch", "48"}}},
      {"gpt with dropout", "gpt", CorpusKind::text, with(gpt, {{"dropout", "0.1"}}), {{"batch", "48"}}},
      {"gpt recomputed",
       "gpt",
       CorpusKind::text,
       with(gpt, {{"layers", "12"}}),
       {{"batch", "48"}, {"recompute", "yes"}}},
      {"gated gpt",
       "gpt",
       CorpusKind::text,
       with(gpt, {{"gated", "yes"}, {"positions", "rotary"}, {"key_heads", "2"}, {"rms_norm", "yes"}}),
       {{"batch", "48"}}},
      {"transformer", "transformer", CorpusKind::tsv, pairs, {{"batch_tokens", "3000"}}},
      {"encoder", "encoder", CorpusKind::labelled, with(pairs, {{"layers", "4"}}), {{"batch", "400"}}},
      {"masked encoder", "encoder", CorpusKind::text, with(gpt, {}), {{"batch", "48"}}},
      {"rnn", "rnn", CorpusKind::tsv, rnn, {{"batch_tokens", "3000"}}},
      {"lstm", "rnn", CorpusKind::tsv, with(rnn, {{"cell", "lstm"}, {"layers", "2"}}), {{"batch_tokens", "3000"}}},
      {"rnn-attention", "rnn-attention", CorpusKind::tsv, rnn, {{"batch_tokens", "2000"}}},
      {"rnn-attention dot",
       "rnn-attention",
       CorpusKind::tsv,
       with(rnn, {{"score", "dot"}}),
       {{"batch_tokens", "3000"}}},
  };
}

TrainingJob job_of(const Case& c, const TemporaryFolder& folder) {
  std::string text = c.kind == CorpusKind::text  ? testing::periodic_text(2000)
                     : c.kind == CorpusKind::tsv ? testing::reversed_digits(400, 14, 16)
                                                 : testing::labelled_letters(600);
  TrainingJob job{.architecture = c.architecture};
  for (const auto& [name, value] : c.model) {
    if (c.architecture == "encoder" && (name == "encoder_layers" || name == "decoder_layers")) continue;
    job.model[name] = value;
  }
  job.data = {.corpus = {.kind = c.kind, .files = {testing::save(folder, "corpus", text)}}, .tokenizer = "char"};
  job.training = with_training(default_training(c.architecture), c.training);
  job.training.steps = 1;
  return job;
}

/// Peak bytes of one batch, forward and backward, beyond the weights and gradients.
double measured_activations(const TrainingFolder& folder) {
  const auto objective = make_objective(folder.model(), folder.data(), folder.training());
  double largest = 0;
  for (int64_t i = 0; i < std::min<int64_t>(objective->batches_per_epoch(), 8); ++i) {
    Rng rng{.seed = 3};
    const MicroBatch batch = objective->batch(i);
    std::vector<Tensor> inputs;
    for (const BatchInput& input : batch.inputs) inputs.push_back(input.values);
    for (const auto& [name, parameter] : folder.model().parameters()) zero_grad(parameter);
    const size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    backward(batch.loss(inputs, {.rng = &rng, .recompute = folder.training().recompute}));
    largest = std::max(largest, static_cast<double>(memory_stats().peak_bytes - before));
  }
  return largest;
}

TEST(MemoryEstimate, IsCloseToTheMeasuredPeak) {
  for (const Case& c : cases()) {
    const TemporaryFolder folder;
    const TrainingFolder training = TrainingFolder::create(job_of(c, folder), folder.file("m"), false);
    const BatchShape shape = largest_batch(training.model(), training.data(), training.training());
    const MemoryEstimate estimate = estimate_memory(training.model(), training.training(), shape, kCpu);
    const double measured = measured_activations(training), ratio = estimate.activations / measured;
    RecordProperty(c.name, std::to_string(ratio));
    EXPECT_GT(ratio, 0.7) << c.name << ": " << estimate.activations << " of " << measured;
    EXPECT_LT(ratio, 1.5) << c.name << ": " << estimate.activations << " of " << measured;
  }
}

TEST(MemoryEstimate, SaysWhatToChange) {
  const TemporaryFolder folder;
  const auto error_of = [&](const Case& c, size_t free_bytes, Device device) -> std::string {
    const TrainingFolder training = TrainingFolder::create(job_of(c, folder), folder.file("m"), true);
    const BatchShape shape = largest_batch(training.model(), training.data(), training.training());
    const MemoryEstimate estimate = estimate_memory(training.model(), training.training(), shape, device);
    try {
      require_memory(estimate, free_bytes, training.model(), training.training(), device);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  const Case gpt = cases()[0], recomputed = cases()[2], rnn = cases()[7];
  const Device cuda{Device::Kind::cuda, 0};
  const auto ends_with = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
    EXPECT_TRUE(text.starts_with("not enough memory: the training needs about ")) << text;
  };
  ends_with(error_of(gpt, 8 << 20, cuda),
            " of 8.0 MiB free on cuda:0; reduce --batch (and raise --accumulate as much), add --recompute, use "
            "--precision bf16");
  ends_with(error_of(gpt, 8 << 20, kCpu), "; reduce --batch (and raise --accumulate as much), add --recompute");
  ends_with(error_of(recomputed, 12 << 20, kCpu), "; reduce --batch (and raise --accumulate as much)");
  ends_with(error_of(rnn, 4 << 20, kCpu), "; reduce --batch-tokens (and raise --accumulate as much)");
  ends_with(error_of(gpt, 1 << 20, kCpu), "; train a smaller model");
  EXPECT_EQ(error_of(gpt, size_t{1} << 30, kCpu), "");
}

}  // namespace
}  // namespace attend
