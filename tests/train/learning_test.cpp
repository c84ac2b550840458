// Tiny models learn tiny tasks to a known loss.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/base/threads.h"
#include "attend/generate/generate_text.h"
#include "attend/generate/translate.h"
#include "attend/models/registry.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::TemporaryFolder;
using testing::tiny_job;

struct Learned {
  TrainingOutcome outcome;
  std::unique_ptr<Model> model;  ///< the saved model
  std::shared_ptr<const Tokenizer> tokenizer;
};

Learned learn(const TrainingJob& job, const std::string& folder) {
  set_threads(1);  // these models are too small to gain from threads
  Learned result{.outcome = TrainingFolder::create(job, folder, false).run(), .model = load_model(folder)};
  result.tokenizer = load_tokenizer(folder);
  return result;
}

class Pairs : public ::testing::TestWithParam<std::string> {};

TEST_P(Pairs, LearnToReverse) {
  const TemporaryFolder folder;
  TrainingJob job =
      tiny_job(GetParam(), CorpusKind::tsv, testing::save(folder, "pairs.tsv", testing::reversed_digits(400, 2, 3)));
  job.model["dim"] = "32";
  job.model[GetParam().starts_with("rnn") ? "state_dim" : "ffn_dim"] = "64";
  job.data.validation_share = 0.1;
  job.training.steps = 250;
  job.training.batch_tokens = 256;
  job.training.lr = 1e-2;
  job.training.schedule = ScheduleKind::cosine;
  job.training.warmup = 20;
  job.training.label_smoothing = 0;
  job.training.validate_every = 100;
  const Learned learned = learn(job, folder.file("m"));
  EXPECT_LT(learned.outcome.result.loss, 0.2) << "chance is ln 6 = 1.79";
  EXPECT_GT(learned.outcome.result.chrf.value_or(0), 90);
  const auto& model = dynamic_cast<const PairModel&>(*learned.model);
  std::vector<std::string> sources;
  for (char a = '0'; a < '6'; ++a) {
    for (char b = '0'; b < '6'; ++b) sources.push_back({a, b});
  }
  int64_t right = 0;
  for (const TranslatedLine& line : translate(model, *learned.tokenizer, sources)) {
    const std::string& source = sources[static_cast<size_t>(line.index)];
    right += line.best[0].text == std::string(source.rbegin(), source.rend());
  }
  EXPECT_GE(right, 30) << "of 36";
}

INSTANTIATE_TEST_SUITE_P(All, Pairs, ::testing::Values("transformer", "rnn", "rnn-attention"), [](const auto& one) {
  return one.param == "rnn-attention" ? std::string("rnn_attention") : one.param;
});

TEST(Language, LearnsAPeriodicText) {
  const TemporaryFolder folder;
  TrainingJob job = tiny_job("gpt", CorpusKind::text, testing::save(folder, "text", testing::periodic_text(100)));
  job.training.steps = 150;
  job.training.batch = 8;
  job.training.lr = 1e-2;
  job.training.validate_every = 50;
  const Learned learned = learn(job, folder.file("m"));
  // The first letter of a window may be any letter of the line; all later ones are determined.
  EXPECT_LT(learned.outcome.result.loss, 0.02) << "chance is ln 12 = 2.48";
  const auto& model = dynamic_cast<const LanguageModel&>(*learned.model);
  EXPECT_EQ(generate_text(model, *learned.tokenizer, "abc", {.tokens = 12}), "defgh ij\nabc");
}

TEST(Classifier, SeparatesTwoClasses) {
  const TemporaryFolder folder;
  TrainingJob job =
      tiny_job("encoder", CorpusKind::labelled, testing::save(folder, "text", testing::labelled_letters(200)));
  job.data.validation_share = 0.2;
  job.training.steps = 60;
  job.training.lr = 1e-2;
  job.training.validate_every = 20;
  const Learned learned = learn(job, folder.file("m"));
  EXPECT_LT(learned.outcome.result.loss, 0.05) << "chance is ln 2 = 0.69";
  EXPECT_EQ(learned.outcome.result.accuracy, 1.0);
  EXPECT_EQ(dynamic_cast<const EncoderModel&>(*learned.model).labels(), (std::vector<std::string>{"early", "late"}));
}

TEST(MaskedWords, PretrainAClassifier) {
  const TemporaryFolder folder;
  TrainingJob words = tiny_job("encoder", CorpusKind::text, testing::save(folder, "t", testing::periodic_text(100)));
  words.model["dim"] = "32";
  words.model["ffn_dim"] = "64";
  words.training.steps = 400;
  words.training.batch = 8;
  words.training.lr = 3e-3;
  words.training.validate_every = 200;
  const Learned base = learn(words, folder.file("base"));
  EXPECT_LT(base.outcome.result.loss, 1.0) << "chance is ln 12 = 2.48";
  EXPECT_TRUE(dynamic_cast<const EncoderModel&>(*base.model).labels().empty());

  std::string lines;
  for (int i = 0; i < 40; ++i) lines += i % 2 == 0 ? "x\tabc abc\n" : "y\tfgh fgh\n";
  TrainingJob labels = tiny_job("encoder", CorpusKind::labelled, testing::save(folder, "labels", lines));
  labels.model.clear();
  labels.from = folder.file("base");
  labels.training.steps = 1;
  labels.training.lr = 1e-9;
  const Learned tuned = learn(labels, folder.file("tuned"));
  EXPECT_EQ(tuned.tokenizer->size(), base.tokenizer->size());
  std::map<std::string, Tensor> known;
  for (const auto& [name, tensor] : base.model->parameters()) known[name] = tensor;
  int64_t same = 0;
  for (const auto& [name, tensor] : tuned.model->parameters()) {
    if (!known.contains(name) || known[name].shape() != tensor.shape()) continue;
    const auto a = tensor.to_vector<float>(), b = known[name].to_vector<float>();
    double difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference = std::max<double>(difference, std::abs(a[i] - b[i]));
    EXPECT_LT(difference, 1e-6) << name;
    ++same;
  }
  EXPECT_GE(same, 8) << "of " << tuned.model->parameters().size();
}

}  // namespace
}  // namespace attend
