// Runs `attend train` on every kind of corpus, and on invalid ones.
#include "train_testing.h"

#include "attend/models/registry.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT: test helpers
using Json = nlohmann::json;

/// Corpus files, and checks of the command's errors. After each test the folder must contain only these files.
class TrainRefuses : public ::testing::Test {
 protected:
  TrainRefuses() {
    std::string ten, nine;
    for (int i = 0; i < 10; ++i) ten += "line " + std::to_string(i) + "\n";
    for (int i = 0; i < 9; ++i) nine += "Zeile " + std::to_string(i) + "\n";
    save(folder_, "ten", ten), save(folder_, "nine", nine), save(folder_, "empty", "");
    save(folder_, "bad", "good\nbad \xff\xfe\n"), save(folder_, "two", "one\ntwo\n");
    save(folder_, "one-label.tsv", "a\tx\na\ty\n"), save(folder_, "no-tab.tsv", "a\tb\nno tab here\n");
    save(folder_, "pairs.tsv", reversed_digits(40));
    fs::create_directory(folder_.file("full"));
    save(folder_, "full/something", "mine");
    files_ = names_in(folder_.path());
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  Words output() const { return {"-o", file("m")}; }

  void expect(const Words& words, int code, const std::string& message) {
    const Finished result = train(words);
    expect_one_line(result, code);
    EXPECT_EQ(result.err, "attend: " + message + "\n");
    EXPECT_EQ(names_in(folder_.path()), files_) << message;
  }
  /// Expects a usage error.
  void expect_usage(const Words& words, const std::string& message) {
    expect(words, 2, message + "; see attend train --help");
  }

  const TemporaryFolder folder_;
  Words files_;
};

TEST_F(TrainRefuses, InvalidCorpora) {
  const Words tiny = kTinyTransformer + output();
  expect(
      Words{"transformer", file("ten"), file("nine")} + tiny, 1,
      file("ten") + " has 10 lines but " + file("nine") + " has 9: aligned files must have the same number of lines");
  expect(Words{"transformer", file("empty"), file("empty")} + tiny, 1, file("empty") + ": is empty");
  expect(Words{"transformer", file("bad"), file("two")} + tiny, 1, file("bad") + ":2: not UTF-8");
  expect(Words{"transformer", file("nowhere"), file("two")} + tiny, 1,
         file("nowhere") + ": cannot open: No such file or directory");
  expect(Words{"transformer", file("full"), file("two")} + tiny, 1, file("full") + ": expected a file, got a folder");
  expect(Words{"transformer", file("no-tab.tsv")} + tiny, 1,
         file("no-tab.tsv") + ":2: expected source TAB target, got no tab in 'no tab here'");
  expect(Words{"encoder", file("one-label.tsv")} + kTinyGpt + output(), 1,
         file("one-label.tsv") + ": a classifier needs at least two labels, but the corpus has 1");
  expect(Words{"encoder", file("ten")} + kTinyGpt + output(), 1,
         file("ten") + ":1: expected label TAB text, got no tab in 'line 0'");
  expect(Words{"gpt", file("two")} + kTinyGpt + output(), 1,
         "the training text has 7 tokens, but needs more than the context of 16");
  expect(Words{"transformer", file("pairs.tsv"), "--validation", file("no-tab.tsv")} + tiny, 1,
         file("no-tab.tsv") + ":2: expected source TAB target, got no tab in 'no tab here'");
}

TEST_F(TrainRefuses, InvalidModelSettings) {
  expect_usage(Words{"rnn", file("pairs.tsv"), "--beta2", "1"} + output(),
               "--beta2 must be a number from 0 to 0.999999, got 1");
  const Words pairs{"transformer", file("pairs.tsv")}, tiny = pairs + kTinyTransformer + output();
  expect_usage(tiny + Words{"--heads", "3"}, "--dim must be a multiple of --heads, got 16 and 3");
  expect_usage(tiny + Words{"--heads", "0"}, "--heads must be at least 1, got 0");
  expect_usage(tiny + Words{"--key-heads", "3"}, "--heads must be a multiple of --key-heads, got 2 and 3");
  expect_usage(tiny + Words{"--positions", "relative", "--buckets", "3"},
               "the model's settings do not fit together: buckets must be even and at least 4, got 3");
  expect_usage(tiny + Words{"--context", "2"}, "none of the 39 training examples fit into a --context of 2 tokens");
  expect_usage(tiny + Words{"--bidirectional", "yes"}, "--bidirectional is not a setting of architecture transformer");
  expect_usage(tiny + Words{"--log-every", "0"}, "--log-every must be at least 1, got 0");
  expect_usage(Words{"gpt", file("ten"), "--stop-on", "bleu"} + kTinyGpt + output(),
               "--stop-on must be loss for architecture gpt, which has no BLEU");
  expect_usage(pairs + output() + Words{"--preset", "huge"}, "--preset: expected tiny, small or base, got 'huge'");
  expect_usage(pairs + output() + Words{"--tokenizer", "nonsense"},
               "--tokenizer: expected char, word, bpe, wordpiece, sentencepiece, or an existing file or folder, got "
               "'nonsense'");
  expect(
      pairs + output() + Words{"--tokenizer", file("full")}, 1,
      file("full") + ": expected a tokenizer: tokenizer.json, tokenizer.model, spiece.model, vocab.json or vocab.txt");
  expect_usage(pairs + output() + Words{"--dim", "wide"},
               "--dim must be a whole number from 0 to 1048576, got \"wide\"");
  expect_usage(pairs + output() + Words{"--lr", "-1"}, "--lr must be a number from 0 to 1000000, got -1");
  expect_usage(pairs + output() + Words{"--lr", "1e30"}, "--lr must be a number from 0 to 1000000, got 1e+30");
  expect(pairs + output() + Words{"--from", file("full")}, 1,
         file("full") + ": this is not a model folder, it has no config.json");
}

TEST_F(TrainRefuses, FoldersItMayNotWrite) {
  const Words pairs = Words{"transformer", file("pairs.tsv")} + kTinyTransformer;
  expect(pairs + Words{"-o", file("ten")}, 1, file("ten") + ": is a file; expected a folder");
  expect(pairs + Words{"-o", file("full")}, 1, file("full") + " already exists; use --resume or --overwrite");
  expect(pairs + Words{"-o", file("ten/m")}, 1, file("ten/m") + ": cannot make this folder: Not a directory");
  expect(pairs + Words{"-o", "/proc/m"}, 1, "/proc/m: cannot make this folder: No such file or directory");
  expect({"--resume", file("nowhere")}, 1, file("nowhere") + ": no such model folder");
  expect({"--resume", file("full")}, 1, file("full") + ": this is not a model folder, it has no config.json");
}

TEST_F(TrainRefuses, UnknownArguments) {
  const Words pairs{"transformer", file("pairs.tsv")};
  expect_usage(Words{"lstm", file("pairs.tsv")} + output(),
               "unknown architecture 'lstm'; expected one of rnn, rnn-attention, transformer, gpt, encoder");
  expect_usage(pairs + output() + Words{"--nonsense"}, "unknown option '--nonsense'");
  expect_usage(pairs, "expected -o MODEL (a new model folder) or --resume MODEL");
  expect_usage({}, "expected -o MODEL (a new model folder) or --resume MODEL");
  expect_usage(Words{"transformer"} + output(), "expected training files");
  expect_usage(Words{"transformer", file("ten"), file("ten"), file("ten")} + output(),
               "expected one file of pairs or two aligned files, got 3 files");
  expect_usage({"--resume", file("full"), "--dim", "32"},
               "--resume uses the model and the corpus of its folder: give only training options with it");
  expect_usage(
      pairs + output() + Words{"--from", file("full"), "--preset", "base"},
      "--from takes size and vocabulary from its model: remove --preset, --tokenizer, --vocabulary and --lowercase");
  expect_usage(pairs + output() + Words{"--threads", "0"},
               "--threads: expected a whole number from 1 to 1024, got '0'");
}

Json outcome(const Finished& result) {
  EXPECT_EQ(result.code, 0) << result.err;
  return result.code == 0 ? Json::parse(result.out) : Json();
}
const Words kShort{"--steps", "4", "--quiet", "--json"};

TEST(Train, PrintsTheOutcomeAsJson) {
  const TemporaryFolder folder;
  const Json json =
      outcome(train(Words{"rnn", save(folder, "p", reversed_digits(60)), "-o", folder.file("m")} + kTinyRnn + kShort));
  EXPECT_EQ(json["model"], folder.file("m"));
  EXPECT_EQ(json["end"], "finished");
  EXPECT_EQ(json["step"], 4);
  for (const char* key :
       {"seconds", "tokens_per_second", "best_step", "validation_loss", "perplexity", "bleu", "chrf"}) {
    EXPECT_TRUE(json[key].is_number()) << key;
  }
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "training.json", "training.jsonl",
                           "loss.svg", "checkpoint.safetensors"}) {
    EXPECT_TRUE(fs::exists(folder.file("m/") + name)) << name;
  }
}

TEST(Train, ReadsPlainFilesGzipFilesAndStandardInput) {
  const TemporaryFolder folder;
  const std::string text = periodic_text(40), plain = save(folder, "plain", text);
  ASSERT_EQ(run({"/bin/bash", "-c", "gzip < \"$0\" > \"$0.gz\"", plain}).code, 0);
  outcome(train(Words{"gpt", plain, "-o", folder.file("a")} + kTinyGpt + kShort));
  outcome(train(Words{"gpt", plain + ".gz", "-o", folder.file("b")} + kTinyGpt + kShort));
  outcome(train(Words{"gpt", "-", "-o", folder.file("c")} + kTinyGpt + kShort, {.input = text}));
  const std::string model = file_text(folder.file("a/model.safetensors"));
  EXPECT_EQ(file_text(folder.file("b/model.safetensors")), model);
  EXPECT_EQ(file_text(folder.file("c/model.safetensors")), model);
  EXPECT_EQ(names_in(folder.file("c/cache")), (Words{"dataset.json", "training.ids"}));
  const Finished bad = train(Words{"gpt", "-", "-o", folder.file("d")} + kTinyGpt, {.input = text + "\xff\n"});
  expect_one_line(bad, 1);
  EXPECT_EQ(bad.err, "attend: stdin:41: not UTF-8\n");
}

TEST(Train, ReplacesInvalidUtf8IfRequested) {
  const TemporaryFolder folder;
  const std::string file = save(folder, "t", periodic_text(20) + "bad \xff line\n" + periodic_text(20));
  expect_one_line(train(Words{"gpt", file, "-o", folder.file("m")} + kTinyGpt + Words{"--quiet"}), 1);
  outcome(train(Words{"gpt", file, "-o", folder.file("m"), "--lossy"} + kTinyGpt + kShort));
}

TEST(Train, ReadsAndShowsChinese) {
  const TemporaryFolder folder;
  std::string source, target;
  for (const char* digit : {"一", "二", "三", "四", "五", "六", "七", "八"}) {
    for (const char* noun : {"个人", "本书", "只猫"})
      source += std::string(digit) + noun + "\n", target += std::string(noun) + digit + "\n";
  }
  const Finished result =
      train(Words{"rnn-attention", save(folder, "a", source), save(folder, "b", target), "-o", folder.file("模型")} +
            kTinyRnn + Words{"--steps", "4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("Use it with: attend translate " + folder.file("模型")), std::string::npos) << result.err;
  const auto samples = result.err.find("  = ");
  ASSERT_NE(samples, std::string::npos) << result.err;
  EXPECT_NE(source.find(result.err.substr(samples + 4 + 6, 3)), std::string::npos)
      << "the sample is a line of the corpus";
}

TEST(Train, ValidatesOnSeparateFiles) {
  const TemporaryFolder folder;
  const std::string pairs = save(folder, "p", reversed_digits(60)), few = save(folder, "v", "012\t210\n34\t43\n");
  const Finished result =
      train(Words{"rnn", pairs, "--validation", few, "-o", folder.file("m"), "--steps", "4"} + kTinyRnn);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("60 examples, 2 for validation"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("    012\n"), std::string::npos) << result.err;
  const Finished label = train(Words{"encoder", save(folder, "l", "a\tx\nb\ty\n"), "--validation",
                                     save(folder, "w", "c\tx\n"), "-o", folder.file("n")} +
                               kTinyGpt);
  expect_one_line(label, 1);
  EXPECT_EQ(label.err, "attend: " + folder.file("w") + ": label 'c' does not occur in the training corpus\n");
}

TEST(Train, ClassifiesFromMaskedWords) {
  const TemporaryFolder folder;
  outcome(train(Words{"encoder", save(folder, "t", periodic_text(60)), "--masked-words", "-o", folder.file("base")} +
                kTinyGpt + kShort));
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += i % 2 == 0 ? "x\tabc abc\n" : "y\tfgh fgh\n";
  const Json json = outcome(train(
      Words{"encoder", save(folder, "l", lines), "--from", folder.file("base"), "-o", folder.file("tuned")} + kShort));
  EXPECT_TRUE(json.contains("accuracy"));
  EXPECT_EQ(load_model(folder.file("tuned"))->vocab_size(), load_model(folder.file("base"))->vocab_size());
}

TEST(Train, TheLastOfRepeatedOptionsCountsAndResumeTakesNewOnes) {
  const TemporaryFolder folder;
  const Words words{"rnn", save(folder, "p", reversed_digits(60)), "-o", folder.file("m"), "--steps", "9"};
  EXPECT_EQ(outcome(train(words + kTinyRnn + kShort))["step"], 4);
  EXPECT_EQ(outcome(train({"--resume", folder.file("m"), "--steps", "7", "--quiet", "--json"}))["step"], 7);
}

}  // namespace
}  // namespace attend
