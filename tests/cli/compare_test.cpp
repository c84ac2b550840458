// Runs `attend compare` on digit strings, with tiny models that train in seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/scratch_folder.h"
#include "testing/process.h"

namespace attend {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

Finished attend_command(Words words) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return testing::run(words);
}

/// Pairs with source and target of one to nine equal digits.
std::string pairs(int count, uint32_t seed) {
  std::string text;
  const auto next = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 16; };
  for (int i = 0; i < count; ++i) {
    std::string digits = std::to_string(next() % 10);
    for (uint32_t k = next() % 9; k > 0; --k) digits.append(" ").append(std::to_string(next() % 10));
    text += digits + "\t" + digits + "\n";
  }
  return text;
}

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

Words compare_words(const std::string& corpus, const std::string& output, const std::string& steps) {
  Words words{"compare", corpus, "-o", output, "--steps", steps, "--batch-tokens", "256", "--tokenizer", "word"};
  for (const char* setting : {"dim=16", "hidden=16", "heads=2", "encoder_layers=1", "decoder_layers=1",
                              "validate_every=20", "log_every=1", "lr=0.01"}) {
    words.insert(words.end(), {"--set", setting});
  }
  return words;
}

/// The JSON without the fields that depend on time.
json timeless(const std::string& path) {
  json result = json::parse(testing::file_text(path));
  for (json& model : result["models"]) model.erase("seconds"), model.erase("tokens_per_second");
  return result;
}

TEST(Compare, TrainsTranslatesAndDraws) {
  const TemporaryFolder folder;
  const std::string corpus = write(folder.file("train.tsv"), pairs(400, 1)), output = folder.file("c");
  const std::string test = write(folder.file("test.tsv"), pairs(60, 2));
  Words words = compare_words(corpus, output, "30");
  words.insert(words.end(), {"--test", test, "--buckets", "3"});
  const Finished result = attend_command(words);
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* text : {"sentences", "rnn-attention", "transformer", "shortest third", "longest third", "all",
                           "parameters", "training time", "tok:13a", "compare.svg"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << '\n' << result.out;
  }
  const json report = json::parse(testing::file_text(output + "/compare.json"));
  EXPECT_EQ(report["sentences"], 60);
  EXPECT_EQ(report["test"], "given");
  ASSERT_EQ(report["buckets"].size(), 3u);
  int counted = 0;
  for (const json& bucket : report["buckets"]) counted += bucket["sentences"].get<int>();
  EXPECT_EQ(counted, 60);
  ASSERT_EQ(report["models"].size(), 3u);
  for (const json& model : report["models"]) {
    const std::string name = model["architecture"];
    EXPECT_EQ(model["steps"], 30);
    EXPECT_GT(model["parameters"], 0);
    EXPECT_EQ(model["bleu_by_bucket"].size(), 3u);
    // All models share the vocabulary, and the scores match the saved translations.
    EXPECT_EQ(testing::file_text(output + "/" + name + "/tokenizer.json"),
              testing::file_text(output + "/rnn/tokenizer.json"));
    const Finished again = attend_command(
        {"evaluate", "--hypotheses", output + "/" + name + ".txt", output + "/test.target.txt", "--json"});
    EXPECT_NEAR(json::parse(again.out)["bleu"].get<double>(), model["bleu"].get<double>(), 1e-9) << name;
    EXPECT_NEAR(json::parse(again.out)["chrf"].get<double>(), model["chrf"].get<double>(), 1e-9) << name;
    const Finished translated = attend_command({"translate", output + "/" + name, "-i", output + "/test.source.txt"});
    EXPECT_EQ(translated.out, testing::file_text(output + "/" + name + ".txt")) << name;
  }
  const std::string svg = testing::file_text(output + "/compare.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));

  // Resuming a finished comparison gives the same result. Creating it again without --overwrite fails.
  const json before = timeless(output + "/compare.json");
  const Finished resumed = attend_command({"compare", "--resume", output, "--json", "--quiet"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err, "");
  EXPECT_EQ(json::parse(resumed.out)["sentences"], 60);
  EXPECT_EQ(timeless(output + "/compare.json"), before);
  const Finished twice = attend_command(words);
  EXPECT_EQ(twice.code, 1);
  EXPECT_EQ(twice.err, "attend: " + output + " already exists; use --resume or --overwrite\n");
}

/// Starts a command, and sends it a signal once `path` exists.
int interrupted(const Words& words, const std::string& path, std::string& errors) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(folder.file("err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    Words command = words;
    command.insert(command.begin(), ATTEND_BINARY_DIR "/attend");
    testing::execute(command, {});
  }
  for (int i = 0; i < 6000 && !std::filesystem::exists(path); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGINT);
  const int code = testing::exit_code(child);
  errors = testing::file_text(folder.file("err"));
  return code;
}

TEST(Compare, ResumesAfterCtrlCWithTheSameResult) {
  const TemporaryFolder folder;
  const std::string corpus = write(folder.file("train.tsv"), pairs(300, 3));
  const std::string whole = folder.file("whole"), stopped = folder.file("stopped");
  Words words = compare_words(corpus, whole, "90");
  words.push_back("--lowercase");
  const Finished result = attend_command(words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("held out of training"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("case:lc"), std::string::npos) << "lower-case models are compared without regard to case";

  std::string errors;
  std::ranges::replace(words, whole, stopped);
  const int code = interrupted(words, stopped + "/rnn-attention/training.jsonl", errors);
  ASSERT_EQ(code, 130) << errors;
  EXPECT_NE(errors.find("Continue with: attend compare --resume " + stopped + "\n"), std::string::npos) << errors;
  EXPECT_TRUE(std::filesystem::exists(stopped + "/rnn.txt"));
  EXPECT_FALSE(std::filesystem::exists(stopped + "/transformer.txt"));
  std::filesystem::remove(corpus);  // resuming needs only the folder
  const Finished resumed = attend_command({"compare", "--resume", stopped, "--quiet"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(timeless(stopped + "/compare.json"), timeless(whole + "/compare.json"));
  for (const char* file : {"/rnn-attention.txt", "/transformer.txt", "/rnn-attention/model.safetensors"}) {
    EXPECT_TRUE(testing::file_text(stopped + file) == testing::file_text(whole + file)) << file;
  }
}

TEST(Compare, ErrorsAreOneLineAndLeaveNoFiles) {
  const TemporaryFolder folder;
  const std::string corpus = write(folder.file("train.tsv"), pairs(30, 4)), output = folder.file("c");
  const std::string shorter = write(folder.file("shorter"), "a\n");
  const std::vector<std::tuple<int, Words, std::string>> cases{
      {2, {corpus}, "expected -o FOLDER (a new folder) or --resume FOLDER; see attend compare --help"},
      {2, {"-o", output}, "expected one file of pairs or two aligned files, got 0 files; see attend compare --help"},
      {2,
       {corpus, "--resume", output},
       "--resume uses the files and settings of its folder: give no files and no -o with it; see attend compare "
       "--help"},
      {2,
       {corpus, "-o", output, "--set", "dim"},
       "--set: expected NAME=VALUE or ARCHITECTURE.NAME=VALUE, got 'dim'; see attend compare --help"},
      {2,
       {corpus, "-o", output, "--architectures", "rnn,lstm"},
       "'lstm' is not a translation architecture; expected rnn, rnn-attention or transformer; see attend compare "
       "--help"},
      {2,
       {corpus, "-o", output, "--set", "colour=1"},
       "none of the compared models has a setting 'colour'; see attend compare --help"},
      {1, {"--resume", output}, output + ": there is no comparison to resume"},
      {1, {corpus, "-o", shorter}, shorter + ": is a file; expected a folder"},
      {1,
       {corpus, shorter, "-o", output},
       corpus + " has 30 lines but " + shorter + " has 1: aligned files must have the same number of lines"},
  };
  for (const auto& [code, words, message] : cases) {
    Words all{"compare", "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished result = attend_command(all);
    EXPECT_EQ(result.code, code) << message;
    EXPECT_EQ(result.err, "attend: " + message + "\n");
    EXPECT_FALSE(std::filesystem::exists(output)) << message;
  }
  // The last architecture is invalid: the files of the others are removed too.
  Words words = compare_words(corpus, output, "10");
  words.insert(words.end(), {"--set", "transformer.heads=3"});
  const Finished result = attend_command(words);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("heads"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(Compare, AFailedOverwriteKeepsTheComparison) {
  const TemporaryFolder folder;
  const std::string corpus = write(folder.file("train.tsv"), pairs(40, 4)), output = folder.file("c");
  Words words = compare_words(corpus, output, "4");
  words.insert(words.end(), {"--architectures", "rnn,transformer", "--quiet"});
  ASSERT_EQ(attend_command(words).code, 0);
  const std::string plan = testing::file_text(output + "/comparison.json");
  words.emplace_back("--overwrite");
  Words invalid = words, missing = words, no_test = words;
  invalid.insert(invalid.end(), {"--set", "rnn.dim=-1"});
  missing[1] = folder.file("nothing");
  no_test.insert(no_test.end(), {"--test", folder.file("nothing")});
  for (const Words& failing : {invalid, missing, no_test}) {
    EXPECT_NE(attend_command(failing).code, 0);
    EXPECT_EQ(testing::file_text(output + "/comparison.json"), plan);
  }
  {
    const FolderLock lock(output);  // as of a process that is working on it
    const Finished busy = attend_command(words);
    EXPECT_EQ(busy.code, 1);
    EXPECT_EQ(busy.err, "attend: " + output + ": another process is working on this comparison\n");
  }
  EXPECT_EQ(testing::file_text(output + "/comparison.json"), plan);
  EXPECT_EQ(attend_command({"compare", "--resume", output, "--quiet"}).code, 0);
}

TEST(Compare, HelpShowsAnExample) {
  const Finished help = attend_command({"compare", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"Examples:", "--architectures", "--test", "--buckets", "--resume", "--json", "--seed"}) {
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace attend
