// Going on from models that others trained.
#include <gtest/gtest.h>

#include "attend/generate/classify.h"
#include "attend/generate/generate_text.h"
#include "attend/generate/translate.h"
#include "attend/hub/hub.h"
#include "hub/hub_testing.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::save;
using testing::TemporaryFolder;

constexpr const char* kPairs =
    "The dog runs.\tEin Hund rennt.\nGood morning.\tGuten Morgen.\nI like tea and a long walk in the park.\tIch mag "
    "Tee."
    "\nHello\t你好，世界\n";

TrainingJob job_from(const std::string& architecture, CorpusKind kind, const std::string& from,
                     const std::string& file) {
  TrainingJob job{.architecture = architecture, .model = {{"dropout", "0"}}, .from = from};
  job.data.corpus = {.kind = kind, .files = {file}};
  job.data.validation = job.data.corpus;
  job.training = fine_tuning(architecture);
  job.training.steps = 200;
  job.training.warmup = 10;
  job.training.lr = 3e-3;
  job.training.label_smoothing = 0;
  job.training.samples = 0;
  return job;
}

/// A folder of the references as files that can be changed.
std::string copy_of(const TemporaryFolder& folder, const std::string& model) {
  const std::string copy = folder.file("theirs");
  std::filesystem::copy(model, copy);
  for (const auto& entry : std::filesystem::directory_iterator(copy)) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
  }
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
  return copy;
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }

class Pretrained : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_ = testing::shared_folder(std::string("goldens/models/") + GetParam());
    if (model_.empty()) GTEST_SKIP() << "there is no ../shared/goldens/models/" << GetParam();
  }
  std::string model_;
};

/// Batches hold texts of unequal length, and what was learned is written from where the folder's decoder starts.
TEST_P(Pretrained, LearnsAFewPairs) {
  const TemporaryFolder folder;
  const TrainingJob job = job_from("transformer", CorpusKind::tsv, model_, save(folder, "p.tsv", kPairs));
  const TrainingOutcome outcome = TrainingFolder::create(job, folder.file("m"), false).run();
  const auto lines = testing::journal(folder.file("m"));
  EXPECT_LT(outcome.result.loss, 0.3) << "it began above 6";
  const LoadedModel loaded = load_any_model(folder.file("m"));
  EXPECT_TRUE(loaded.rules.as_transformers);
  EXPECT_EQ(loaded.rules.start, load_hub_model(model_).rules.start);
  const auto tokenizer = load_tokenizer(folder.file("m"));
  const std::vector<std::string> sources{"The dog runs.", "Hello"};
  const auto written = translate(dynamic_cast<const PairModel&>(*loaded.model), *tokenizer, sources,
                                 with_rules({.max_length = 24}, loaded.rules));
  EXPECT_EQ(written[0].best[0].text, "Ein Hund rennt.");
}

TEST_P(Pretrained, PairsAsLongAsTheContextAreLearnedOrLeftOut) {
  const TemporaryFolder folder;
  std::string pairs = kPairs;
  for (int words = 50; words < 70; ++words) {  // about the context of 64, a token each
    for (int i = 0; i < words; ++i) pairs += "a ";
    pairs += "\tb\n";
  }
  TrainingJob job = job_from("transformer", CorpusKind::tsv, model_, save(folder, "p.tsv", pairs));
  job.training.steps = 3;
  EXPECT_NO_THROW(TrainingFolder::create(job, folder.file("m"), false).run());
}

INSTANTIATE_TEST_SUITE_P(FineTuning, Pretrained, ::testing::Values("marian", "bart", "t5"));

/// Its prompts begin with a mark of their own, so the lines it learns from do, too.
TEST(FineTuning, LlamaWritesLinesFromWhereItsPromptsBegin) {
  const std::string llama = testing::shared_folder("goldens/models/llama");
  if (llama.empty()) GTEST_SKIP() << "there is no ../shared/goldens/models/llama";
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "The dog runs in the park.\n";
  TrainingJob job = job_from("gpt", CorpusKind::text, llama, save(folder, "t.txt", text));
  job.data.by_line = true;
  job.training.batch = 4;
  TrainingFolder made = TrainingFolder::create(job, folder.file("m"), false);
  const auto tokenizer = load_tokenizer(folder.file("m"));
  EXPECT_EQ(made.data().begin, tokenizer->special().begin);
  EXPECT_EQ(open_dataset(folder.file("m")).begin, tokenizer->special().begin) << "when training goes on";
  made.run();
  const LoadedModel loaded = load_any_model(folder.file("m"));
  const std::vector<std::string> prompts{"", "The dog"};
  const auto written = generate_text(dynamic_cast<const LanguageModel&>(*loaded.model), *tokenizer, prompts,
                                     {.tokens = 40, .sampling = {.temperature = 0}, .rules = loaded.rules});
  EXPECT_EQ(written[0].text, "The dog runs in the park.");
  EXPECT_EQ(written[0].ending, Ending::end);
  EXPECT_EQ(written[1].text, " runs in the park.");
}

TEST(FineTuning, BertLearnsLabels) {
  const std::string bert = testing::shared_folder("goldens/models/bert");
  if (bert.empty()) GTEST_SKIP() << "there is no ../shared/goldens/models/bert";
  const TemporaryFolder folder;
  const std::string file = save(folder, "l.tsv", "good\tI like it\nbad\tnot at all\ngood\tvery nice\nbad\tso sad\n");
  const TrainingJob job = job_from("encoder", CorpusKind::labelled, bert, file);
  const TrainingOutcome outcome = TrainingFolder::create(job, folder.file("m"), false).run();
  EXPECT_EQ(outcome.result.accuracy.value_or(0), 1);
  EXPECT_LT(outcome.result.loss, 0.1);
  const LoadedModel loaded = load_any_model(folder.file("m"));
  const std::vector<std::string> texts{"very nice"};
  const auto& model = dynamic_cast<const EncoderModel&>(*loaded.model);
  EXPECT_EQ(model.labels()[static_cast<size_t>(classify(model, *load_tokenizer(folder.file("m")), texts)[0].label)],
            "good");
}

TEST(FineTuning, TheRateGoesByTheWidth) {
  const std::string bert = testing::shared_folder("goldens/models/bert");
  if (bert.empty()) GTEST_SKIP() << "there is no ../shared/goldens/models/bert";
  const TemporaryFolder folder;
  TrainingJob job = job_from("encoder", CorpusKind::labelled, bert, save(folder, "l.tsv", "a\tx y\nb\tz z\n"));
  job.training = fine_tuning("encoder");
  job.training.steps = 2;
  const TrainingFolder made = TrainingFolder::create(job, folder.file("m"), false);
  EXPECT_DOUBLE_EQ(made.training().lr, 0.04 / 32);
  EXPECT_DOUBLE_EQ(read_json(folder.file("m/training.json"))["lr"].get<double>(), 0.04 / 32);
  EXPECT_EQ(fine_tuning("transformer").schedule, ScheduleKind::linear);
}

TEST(FineTuning, ATasksPrefixIsLearnedAndWritten) {
  const std::string t5 = testing::shared_folder("goldens/models/t5");
  if (t5.empty()) GTEST_SKIP() << "there is no ../shared/goldens/models/t5";
  const TemporaryFolder folder;
  const std::string copy = copy_of(folder, t5);
  nlohmann::json config = read_json(copy + "/config.json");
  config["task_specific_params"] = {{"summarization", {{"prefix", "summarize: "}}},
                                    {"translation_en_to_de", {{"prefix", "translate: "}, {"num_beams", 3}}},
                                    {"translation_en_to_fr", {{"prefix", "traduire: "}}}};
  std::ofstream(copy + "/config.json") << config;
  TrainingJob job =
      job_from("transformer", CorpusKind::tsv, copy, save(folder, "p.tsv", "the dog\tHund\na cat\tKatze\n"));
  job.training.steps = 1;
  job.task = "translation_en_to_de";
  const TrainingFolder made = TrainingFolder::create(job, folder.file("m"), false);
  EXPECT_EQ(made.data().prefix, "translate: ");
  const auto ids = made.data().training.sequence(0, 0);
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), made.data().tokenizer->encode("translate: the dog"));
  EXPECT_EQ(made.data().samples[0].source, "the dog");
  EXPECT_EQ(open_dataset(folder.file("m")).prefix, "translate: ");
  const GenerationRules rules = load_any_model(folder.file("m")).rules;
  EXPECT_EQ(rules.prefix, "translate: ");
  EXPECT_EQ(rules.beam, 3);
  job.task = "poetry";
  testing::expect_error<Error>([&] { TrainingFolder::create(job, folder.file("n"), false); },
                               copy +
                                   ": there is no task 'poetry'; there are 'summarization', 'translation_en_to_de', "
                                   "'translation_en_to_fr'");
}

}  // namespace
}  // namespace attend
