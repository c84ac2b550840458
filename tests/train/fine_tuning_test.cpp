// Fine-tuning of Hugging Face models.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

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

/// A model of the repository's reference cases, with random embeddings for the vocabulary of one of their tokenizers.
std::string pretrained(const TemporaryFolder& folder, const std::string& name, const std::string& tokenizer = "llama") {
  testing::HubFiles files = testing::hub_files(testing::golden_model(name));
  const std::string words = ATTEND_SOURCE_DIR "/tests/golden/cases/tokenizers/" + tokenizer;
  const int64_t old = files.config["vocab_size"], count = load_tokenizer(words)->size();
  uint64_t seed = 1;
  for (auto& [key, tensor] : files.tensors) {
    Shape shape;
    for (int64_t axis = 0; axis < tensor.rank(); ++axis) {
      shape.push_back(tensor.dim(axis) == old ? count : tensor.dim(axis));
    }
    if (shape != tensor.shape()) tensor = normal(shape, 0, 1, {seed++, 7});
  }
  files.config["vocab_size"] = count;
  if (files.config.contains("decoder_start_token_id")) {  // <unk>, <s> and </s> are 0, 1 and 2
    files.config.update({{"pad_token_id", 0}, {"decoder_start_token_id", name == "bart" ? 2 : 0}, {"eos_token_id", 2}});
    if (files.config.contains("forced_eos_token_id")) files.config["forced_eos_token_id"] = 2;
    if (files.config.contains("decoder_vocab_size")) files.config["decoder_vocab_size"] = count;
  }
  files.save(folder.file("theirs"));
  for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"}) {
    std::filesystem::copy(words + file, folder.file("theirs") + file);
  }
  return folder.file("theirs");
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }

class Pretrained : public ::testing::TestWithParam<const char*> {
 protected:
  const TemporaryFolder theirs_;
  const std::string model_ = pretrained(theirs_, GetParam());
};

/// Batches contain texts of different lengths. Generation starts from the folder's decoder start token.
TEST_P(Pretrained, LearnsAFewPairs) {
  const TemporaryFolder folder;
  TrainingJob job = job_from("transformer", CorpusKind::tsv, model_, save(folder, "p.tsv", kPairs));
  if (std::string(GetParam()) == "t5") job.training.lr = 1e-2, job.training.steps = 300;  // its logits are divided by 4
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

TEST_P(Pretrained, PairsAroundTheContextLengthAreLearnedOrSkipped) {
  const TemporaryFolder folder;
  std::string pairs = kPairs;
  for (int words = 50; words < 70; ++words) {  // around the context of 64; each word is a token
    for (int i = 0; i < words; ++i) pairs += "a ";
    pairs += "\tb\n";
  }
  TrainingJob job = job_from("transformer", CorpusKind::tsv, model_, save(folder, "p.tsv", pairs));
  job.training.steps = 3;
  EXPECT_NO_THROW(TrainingFolder::create(job, folder.file("m"), false).run());
}

INSTANTIATE_TEST_SUITE_P(FineTuning, Pretrained, ::testing::Values("marian", "bart", "t5"));

/// How often `work` opens and closes a file. The kernel counts several openings in a row as one.
int64_t open_events(const std::string& path, const std::function<void()>& work) {
  const int watch = inotify_init1(IN_NONBLOCK);
  EXPECT_GE(inotify_add_watch(watch, path.c_str(), IN_OPEN | IN_CLOSE), 0);
  work();
  alignas(inotify_event) char events[1 << 12];
  const ssize_t bytes = read(watch, events, sizeof events);
  close(watch);
  return bytes / static_cast<ssize_t>(sizeof(inotify_event));  // those of a file have no name behind them
}

TEST(FineTuning, LoadsItsModelOnce) {
  const TemporaryFolder folder;
  const std::string model = pretrained(folder, "marian"), weights = model + "/model.safetensors";
  const TrainingJob job = job_from("transformer", CorpusKind::tsv, model, save(folder, "p.tsv", kPairs));
  const int64_t once = open_events(weights, [&] { load_any_model(model); });
  EXPECT_EQ(once, 2);
  EXPECT_EQ(open_events(weights, [&] { TrainingFolder::create(job, folder.file("m"), false); }), once);
}

/// Llama's prompts begin with a begin token, so its training lines must begin with it too.
TEST(FineTuning, LlamaLearnsLinesAfterItsBeginToken) {
  const TemporaryFolder folder;
  const std::string llama = pretrained(folder, "llama");
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
  const std::vector<std::string> prompts{"", "The dog "};  // a prefix of the line's tokens
  const auto written = generate_text(dynamic_cast<const LanguageModel&>(*loaded.model), *tokenizer, prompts,
                                     {.tokens = 40, .sampling = {.temperature = 0}, .rules = loaded.rules});
  EXPECT_EQ(written[0].text, "The dog runs in the park.");
  EXPECT_EQ(written[0].ending, Ending::end);
  EXPECT_EQ(written[1].text, "runs in the park.");
}

TEST(FineTuning, BertLearnsLabels) {
  const TemporaryFolder folder;
  const std::string bert = pretrained(folder, "bert", "bert");
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

TEST(FineTuning, TheDefaultLearningRateDependsOnTheWidth) {
  const TemporaryFolder folder;
  const std::string bert = pretrained(folder, "bert", "bert");
  TrainingJob job = job_from("encoder", CorpusKind::labelled, bert, save(folder, "l.tsv", "a\tx y\nb\tz z\n"));
  job.training = fine_tuning("encoder");
  job.training.steps = 2;
  const TrainingFolder made = TrainingFolder::create(job, folder.file("m"), false);
  EXPECT_DOUBLE_EQ(made.training().lr, 0.04 / 16);
  EXPECT_DOUBLE_EQ(read_json(folder.file("m/training.json"))["lr"].get<double>(), 0.04 / 16);
  EXPECT_EQ(fine_tuning("transformer").schedule, ScheduleKind::linear);
}

TEST(FineTuning, ATasksPrefixIsUsedInTrainingAndSaved) {
  const TemporaryFolder folder;
  const std::string copy = pretrained(folder, "t5");
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
                                   ": unknown task 'poetry'; expected one of 'summarization', 'translation_en_to_de', "
                                   "'translation_en_to_fr'");
}

}  // namespace
}  // namespace attend
