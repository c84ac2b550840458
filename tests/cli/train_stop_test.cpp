// Stops `attend train` in every possible way: nothing is lost, and resuming gives the same result as no stop.
#include <sys/mount.h>

#include "attend/models/registry.h"
#include "train_testing.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT: test helpers

/// A job of about two seconds that writes often.
Words job(const TemporaryFolder& folder, const std::string& model, const Words& more = {}) {
  const std::string pairs = folder.file("pairs.tsv");
  if (!fs::exists(pairs)) save(folder, "pairs.tsv", reversed_digits(200));
  return Words{"transformer", pairs, "-o", folder.file(model)} + kTinyTransformer +
         Words{"--steps",   "120", "--validate-every", "6",        "--log-every",    "4",
               "--average", "3",   "--accumulate",     "2",        "--batch-tokens", "256",
               "--dropout", "0.1", "--schedule",       "constant", "--warmup",       "5"} +
         more;
}

void expect_same(const std::string& got, const std::string& expected) {
  const auto a = trained_files(got), b = trained_files(expected);
  for (const auto& [name, content] : a) EXPECT_TRUE(b.contains(name)) << name;
  for (const auto& [name, content] : b) EXPECT_TRUE(a.contains(name) && a.at(name) == content) << name;
}

TEST(TrainKilled, AtAnyMomentResumesWithTheSameResult) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  ASSERT_EQ(train(job(folder, "whole", {"--quiet"})).code, 0);
  int killed = 0;
  for (const int delay : {4, 30, 8, 60, 15, 120, 45, 200, 90, 300, 150, 400, 70, 250}) {
    Running process(train_command(fs::exists(model) ? Words{"--resume", model, "--quiet"} : job(folder, "m")));
    sleep_for(delay);
    killed += process.end(SIGKILL).code == -1;
    if (fs::exists(model)) {
      ASSERT_NO_THROW(load_model(model)) << "after " << delay << " ms";
    }
  }
  EXPECT_GE(killed, 5) << "training was over too soon for this test";
  const Finished last = train(fs::exists(model) ? Words{"--resume", model, "--quiet"} : job(folder, "m", {"--quiet"}));
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.err, "");
  expect_same(model, folder.file("whole"));
  EXPECT_EQ(names_in(folder.path()), (Words{"m", "pairs.tsv", "whole"}));
}

TEST(TrainKilled, WhileItReplacesAModelLeavesOneOfTheTwo) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  ASSERT_EQ(train(job(folder, "m", {"--quiet", "--steps", "6"})).code, 0);
  for (const int delay : {5, 10, 20, 35, 50, 80, 120}) {
    Running process(train_command(job(folder, "m", {"--overwrite"})));
    sleep_for(delay);
    process.end(SIGKILL);
    ASSERT_NO_THROW(load_model(model)) << "after " << delay << " ms";
  }
  EXPECT_EQ(train(job(folder, "m", {"--overwrite", "--quiet", "--steps", "6"})).code, 0);
  EXPECT_EQ(names_in(folder.path()), (Words{"m", "pairs.tsv"}));
}

int64_t last_step(const std::string& model) {
  const auto file = SafetensorsFile::open(model + "/checkpoint.safetensors");
  return std::stoll(file.metadata().at("step"));
}

TEST(TrainSignals, SaveAndSayHowToResume) {
  const TemporaryFolder folder;
  const std::string model = folder.file("my model");
  const Words endless{"--steps", "10000000", "--json", "--log-every", "1"};
  int64_t before = -1;
  for (const auto& [signal, code] : std::vector<std::pair<int, int>>{{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}}) {
    const auto log = [&] { return file_text(model + "/training.jsonl").size(); };
    const size_t lines = log();
    Running process(train_command(before < 0 ? job(folder, "my model", endless) : Words{"--resume", model, "--json"}));
    ASSERT_TRUE(wait_until([&] { return log() > lines + 500; }));
    const Finished result = process.end(signal);
    EXPECT_EQ(result.code, code);
    const int64_t step = last_step(model);
    EXPECT_GT(step, before);
    before = step;
    EXPECT_NE(result.err.find("Stopped at step " + std::to_string(step) +
                              "; everything is saved.\n"
                              "Continue with: attend train --resume '" +
                              model + "'\n"),
              std::string::npos)
        << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["end"], "interrupted");
    EXPECT_EQ(json["step"], step);
  }
}

TEST(TrainSignals, WhileItReadsTheCorpusLeaveNothing) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += std::to_string(i) + " bottles on a wall of stone\n";
  const std::string corpus = save(folder, "text", text);
  Running process(train_command(Words{"gpt", corpus, "-o", folder.file("m")} + kTinyGpt));
  const std::string cache = folder.file("m.new-" + std::to_string(process.pid())) + "/cache";
  ASSERT_TRUE(wait_until([&] { return fs::exists(cache); }));  // files written there have no names yet
  const Finished result = process.end(SIGINT);
  EXPECT_EQ(result.code, 130);
  EXPECT_NE(result.err.find("Stopped before training began; nothing was written.\n"), std::string::npos) << result.err;
  EXPECT_EQ(names_in(folder.path()), Words{"text"});
}

Finished train_with_small_files(const Words& words) {
  Words command{"/bin/bash", "-c", R"(ulimit -f 16; exec "$0" "$@")"};
  for (const std::string& word : train_command(words)) command.push_back(word);
  return run(command);
}

TEST(TrainFullDisk, IsOneLineAndLosesNothing) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(job(folder, "whole", {"--quiet", "--steps", "24"})).code, 0);
  expect_one_line(train_with_small_files(job(folder, "m", {"--quiet"})), 1);
  EXPECT_EQ(names_in(folder.path()), (Words{"pairs.tsv", "whole"}));

  const std::string model = folder.file("m");
  ASSERT_EQ(train(job(folder, "m", {"--quiet", "--steps", "12"})).code, 0);
  const auto files = trained_files(model);
  const Finished full = train_with_small_files({"--resume", model, "--steps", "24", "--quiet"});
  expect_one_line(full, 1);
  EXPECT_NE(full.err.find("File too large"), std::string::npos) << full.err;
  EXPECT_TRUE(trained_files(model).at("checkpoint.safetensors") == files.at("checkpoint.safetensors"));
  EXPECT_NO_THROW(load_model(model));
  ASSERT_EQ(train({"--resume", model, "--quiet"}).code, 0);
  EXPECT_TRUE(trained_files(model).at("checkpoint.safetensors") ==
              trained_files(folder.file("whole")).at("checkpoint.safetensors"));
}

TEST(TrainFullDisk, OfAFileSystemOfItsOwn) {
  const TemporaryFolder folder;
  const std::string disk = folder.file("disk");
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=300k") != 0) GTEST_SKIP() << "may not mount a file system";
  const std::string model = disk + "/m";
  Words words = job(folder, "m", {"--quiet"});
  *(std::ranges::find(words, "-o") + 1) = model;
  const Finished full = train(words);  // the snapshots for averaging do not fit
  expect_one_line(full, 1);
  EXPECT_NE(full.err.find("No space left on device"), std::string::npos) << full.err;
  EXPECT_NO_THROW(load_model(model));
  EXPECT_GT(last_step(model), 0);
  umount(disk.c_str());
}

TEST(TrainTwice, InOneFolderIsRefused) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  Running process(train_command(job(folder, "m", {"--steps", "10000000"})));
  ASSERT_TRUE(wait_until([&] { return fs::exists(model + "/training.jsonl"); }));
  const Finished second = train({"--resume", model});
  expect_one_line(second, 1);
  EXPECT_EQ(second.err, "attend: " + model + ": another process is training this model\n");
}

}  // namespace
}  // namespace attend
