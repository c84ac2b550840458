// Hostile input and unlucky conditions: one clear line of error, no data lost, no foreign files changed.
#include <sys/stat.h>

#include "attend/io/files.h"
#include "attend/models/registry.h"
#include "io/scratch_folder.h"
#include "train_testing.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT: test helpers

Finished attend_command(Words words, const ProcessOptions& options = {}) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return run(words, options);
}

/// A translation model trained for a few steps.
class Faults : public ::testing::Test {
 protected:
  Words job(const Words& more = {}) const {
    return Words{"transformer", pairs_, "-o", model_, "--schedule", "constant"} + kTinyTransformer + more;
  }
  void train_it() {
    const Finished result = train(job({"--steps", "4", "--quiet"}));
    ASSERT_EQ(result.code, 0) << result.err;
  }

  const TemporaryFolder folder_;
  const std::string pairs_ = save(folder_, "pairs.tsv", reversed_digits(60)), model_ = folder_.file("m");
};

TEST_F(Faults, FoldersBesideAModelAreLeftAlone) {
  for (const char* name : {"m.old-20240101", "m.new-7"}) {
    fs::create_directory(folder_.file(name));
    save(folder_, std::string(name) + "/note", "mine");
  }
  train_it();
  EXPECT_EQ(train(job({"--steps", "2", "--quiet", "--overwrite"})).code, 0);
  EXPECT_EQ(names_in(folder_.path()), (Words{"m", "m.new-7", "m.old-20240101", "pairs.tsv"}));
  EXPECT_EQ(file_text(folder_.file("m.new-7/note")), "mine");
  EXPECT_EQ(file_text(folder_.file("m.old-20240101/note")), "mine");
}

TEST_F(Faults, ResumingWithoutACheckpointChangesNothing) {
  train_it();
  fs::remove(model_ + "/checkpoint.safetensors");
  const auto before = trained_files(model_);
  const Finished result = train({"--resume", model_});
  expect_one_line(result, 1);
  EXPECT_NE(result.err.find("there is no checkpoint.safetensors to resume from; start over with -o and --overwrite"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(trained_files(model_), before);
}

TEST_F(Faults, ALogThatIsAPipeOrADeviceDoesNotBlock) {
  train_it();
  const std::string log = model_ + "/training.jsonl";
  for (const bool is_pipe : {true, false}) {
    fs::remove(log);
    if (is_pipe) {
      ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
    } else {
      fs::create_symlink("/dev/zero", log);
    }
    for (const Words& words : {Words{"info", model_}, Words{"view", model_, "--no-open", "--port", "0"},
                               Words{"train", "--resume", model_, "--steps", "9"}}) {
      const Finished result = attend_command(words);
      EXPECT_EQ(result.code, 1) << words[0];
      EXPECT_NE(result.err.find("attend: " + log + ": expected a regular file, got a "), std::string::npos)
          << words[0] << ": " << result.err;
    }
  }
}

/// As in a download cache, where a model folder consists of links.
TEST_F(Faults, AModelFolderOfLinksCanBeRead) {
  train_it();
  const std::string links = folder_.file("snapshot");
  fs::create_directory(links);
  for (const auto& entry : fs::directory_iterator(model_)) {
    if (entry.is_regular_file()) fs::create_symlink(entry.path(), links + "/" + entry.path().filename().string());
  }
  EXPECT_EQ(attend_command({"info", links}).code, 0);
  EXPECT_EQ(attend_command({"translate", links, "012"}).code, 0);
}

TEST_F(Faults, AFileThatShrinksInUseIsOneLine) {
  Running process(train_command(job({"--steps", "10000000"})));
  ASSERT_TRUE(wait_until([&] { return fs::exists(model_ + "/training.jsonl"); }));
  const std::string ids = model_ + "/cache/training.ids";
  ASSERT_EQ(truncate(ids.c_str(), 0), 0);
  const Finished result = process.wait();
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(
      result.err.ends_with("attend: " + ids + ": the file was truncated while in use; restore it and start again\n"))
      << result.err;
}

TEST_F(Faults, AModelThatShrinksUnderACommandIsOneLine) {
  train_it();
  const std::string input = folder_.file("input"), weights = model_ + "/model.safetensors";
  ASSERT_EQ(mkfifo(input.c_str(), 0600), 0);
  Running process({ATTEND_BINARY_DIR "/attend", "translate", model_, "-i", input});
  const int writer = open(input.c_str(), O_WRONLY);  // returns once the command waits for input
  ASSERT_GE(writer, 0);
  if (truncate(weights.c_str(), 0) != 0 || write(writer, "012\n", 4) != 4) ADD_FAILURE();
  close(writer);
  const Finished result = process.wait();
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find(weights + ": the file was truncated while in use"), std::string::npos) << result.err;
}

TEST_F(Faults, FilesystemErrorsAreOneLine) {
  fs::create_symlink("loop", folder_.file("loop"));
  const std::string loop = folder_.file("loop"), reason = "Too many levels of symbolic links\n";
  for (const Words& words :
       {Words{"info", loop}, Words{"train", "--resume", loop}, Words{"translate", loop, "x"},
        Words{"tokenize", loop, "x"}, Words{"demo", "-o", loop}, Words{"train", "rnn", pairs_, "-o", loop}}) {
    const Finished result = attend_command(words);
    expect_one_line(result, 1);
    EXPECT_NE(result.err.find(loop), std::string::npos) << result.err;
    EXPECT_TRUE(result.err.ends_with(reason)) << result.err;
    EXPECT_EQ(result.err.find("filesystem error"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(loop + ": " + loop), std::string::npos) << result.err;
  }
}

TEST_F(Faults, ATrainedModelKeepsItsTokenizer) {
  train_it();
  const std::string before = file_text(model_ + "/tokenizer.json");
  const Words words{"tokenize", "--train", pairs_, "--kind", "char", "--min-count", "1", "-o", model_};
  const Finished result = attend_command(words);
  expect_one_line(result, 1);
  EXPECT_NE(result.err.find(model_ + ": holds a model ("), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("or replace the tokenizer with --overwrite"), std::string::npos) << result.err;
  EXPECT_EQ(file_text(model_ + "/tokenizer.json"), before);
  {
    const FolderLock lock(model_);  // as of a process that trains the model
    const Finished busy = attend_command(words + Words{"--overwrite"});
    expect_one_line(busy, 1);
    EXPECT_NE(busy.err.find("another process is training this model"), std::string::npos) << busy.err;
    EXPECT_EQ(file_text(model_ + "/tokenizer.json"), before);
    EXPECT_EQ(attend_command({"plan", model_, "--batch-seconds", "1"}).code, 0) << "only reads";
  }
  EXPECT_EQ(attend_command(words + Words{"--overwrite"}).code, 0);
}

TEST_F(Faults, ResumingAFinishedRunKeepsItsSettings) {
  train_it();
  const auto before = trained_files(model_);
  EXPECT_EQ(train({"--resume", model_, "--lr", "5"}).code, 0);
  EXPECT_EQ(trained_files(model_), before);
  const Finished result = train({"--resume", model_, "--steps", "3"});
  expect_one_line(result, 2);
  EXPECT_NE(result.err.find("--steps is 3, but the model has already been trained for 4"), std::string::npos)
      << result.err;
  EXPECT_EQ(trained_files(model_), before);
}

TEST_F(Faults, DamagedWeightsAreNotTrained) {
  train_it();
  const std::unique_ptr<Model> model = load_model(model_);
  const std::string damaged = folder_.file("damaged");
  fs::copy(model_, damaged);
  model->parameters().front().second.data<float>()[0] = std::nanf("");
  save_model(*model, damaged);
  const std::string made = folder_.file("made");
  const Finished result = train({"transformer", pairs_, "-o", made, "--from", damaged, "--steps", "2", "--quiet"});
  expect_one_line(result, 1);
  EXPECT_NE(result.err.find("attend: " + damaged + ": parameter "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(": the weights are damaged"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(made));
}

TEST_F(Faults, AFinishedRunSaysHowToTrainFurther) {
  train_it();
  const auto before = trained_files(model_);
  const Finished result = train({"--resume", model_});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("Training had already finished at step 4 of 4: validation loss "), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("To train further: attend train --resume " + model_ + " --steps 8\n"), std::string::npos)
      << result.err;
  EXPECT_EQ(trained_files(model_), before);
}

TEST_F(Faults, TrainingShowsProgressLongBeforeItsFirstReport) {
  Running process(
      train_command(job({"--steps", "10000000", "--log-every", "10000000", "--validate-every", "10000000"})));
  const auto has_line = [&] {
    const std::string text = process.err();
    return text.find("\nstep ") != std::string::npos && text.find(" tokens/s  ") != std::string::npos &&
           text.find(" left\n") != std::string::npos;
  };
  EXPECT_TRUE(wait_until(has_line)) << process.err();
  const Finished result = process.end(SIGHUP);
  EXPECT_EQ(result.code, 128 + SIGHUP);
  EXPECT_NE(result.err.find("\nStopping after saving. Press Ctrl-C again to stop immediately, without saving.\n"),
            std::string::npos)
      << result.err;
  const size_t at = result.err.find("Stopped at step ");
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; everything is saved.\n", at), std::string::npos) << result.err;
  const int64_t step = std::stoll(result.err.substr(at + std::string("Stopped at step ").size()));
  EXPECT_EQ(train({"--resume", model_, "--steps", std::to_string(step + 1), "--quiet"}).code, 0);
}

TEST_F(Faults, AnIgnoredHangUpSignalStaysIgnored) {
  Running process({"/bin/sh", "-c", R"(trap '' HUP; exec "$0" "$@")", ATTEND_BINARY_DIR "/attend", "train",
                   "transformer", pairs_, "-o", model_, "--tokenizer", "char", "--dim", "16", "--steps", "10000000",
                   "--log-every", "1"});
  const auto log = [&] { return file_text(model_ + "/training.jsonl").size(); };
  ASSERT_TRUE(wait_until([&] { return log() > 0; }));
  kill(process.pid(), SIGHUP);
  const size_t before = log();
  EXPECT_TRUE(wait_until([&] { return log() > before + 2000; }));
  EXPECT_EQ(process.end(SIGTERM).code, 128 + SIGTERM);
}

TEST_F(Faults, AClosedOutputPipeDoesNotEndTheTraining) {
  const Finished result = run({"/bin/bash", "-c", R"(set -o pipefail; "$0" "$@" 2>&1 | head -n 1)",
                               ATTEND_BINARY_DIR "/attend", "train", "transformer", pairs_, "-o", model_, "--tokenizer",
                               "char", "--dim", "16", "--steps", "6", "--log-every", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(SafetensorsFile::open(model_ + "/checkpoint.safetensors").metadata().at("step"), "6");
}

TEST(Environment, TheNumberOfThreadsMustBeANumber) {
  for (const char* text : {"abc", "0", "-1", "2x", "1025", " 2"}) {
    const Finished result = attend_command({"tokenize", "x", "y"}, {.environment = {{"ATTEND_THREADS", text}}});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err,
              "attend: ATTEND_THREADS: expected a whole number from 1 to 1024, got '" + std::string(text) + "'\n");
  }
  EXPECT_EQ(attend_command({"--version"}, {.environment = {{"ATTEND_THREADS", "2"}}}).code, 0);
  EXPECT_EQ(attend_command({"--version"}, {.environment = {{"ATTEND_THREADS", ""}}}).code, 0);
}

TEST(DemoStopped, SavesAndCanBeResumed) {
  const TemporaryFolder folder;
  const std::string model = folder.file("dates");
  Running process({ATTEND_BINARY_DIR "/attend", "demo", "-o", model, "--steps", "100000"});
  ASSERT_TRUE(wait_until([&] { return process.err().find("\nstep ") != std::string::npos; }));
  const Finished result = process.end(SIGINT);
  EXPECT_EQ(result.code, 130);
  EXPECT_NE(result.err.find("Stopping after saving."), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; everything is saved.\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("attend train --resume " + model + "\n"), std::string::npos) << result.err;
  EXPECT_GT(std::stoll(SafetensorsFile::open(model + "/checkpoint.safetensors").metadata().at("step")), 0);
  EXPECT_NO_THROW(load_model(model));
}

}  // namespace
}  // namespace attend
