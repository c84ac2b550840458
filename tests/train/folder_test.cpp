// A model folder appears whole, is used by one process at a time, and what cannot be trained leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "attend/base/error.h"
#include "attend/io/files.h"
#include "attend/models/registry.h"
#include "train_testing.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::periodic_text;
using testing::reversed_digits;
using testing::TemporaryFolder;
using testing::tiny_job;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ModelFolder, IsReplacedOnlyWhenAsked) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  TrainingFolder::create(job, model + "/", false);
  write_file(model + "/note", "mine");
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, model, false); }),
            model + ": is there already; go on with --resume, or start anew with --overwrite");
  EXPECT_EQ(file_text(model + "/note"), "mine");
  TrainingFolder::create(job, model, true);
  EXPECT_FALSE(fs::exists(model + "/note"));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "p"}));
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, folder.file("p"), true); }),
            folder.file("p") + ": is a file, expected a folder to make");
}

TEST(ModelFolder, HasRoomForOneProcess) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m"), busy = model + ": another process is training this model";
  {
    const TrainingFolder held = TrainingFolder::create(job, model, false);
    EXPECT_EQ(error_of([&] { TrainingFolder::open(model); }), busy);
    EXPECT_EQ(error_of([&] { TrainingFolder::create(job, model, true); }), busy);
  }
  EXPECT_EQ(TrainingFolder::open(model).run().end, TrainingOutcome::End::finished);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "p"}));
}

TEST(ModelFolder, WhatKilledProcessesLeftIsClearedAway) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  TrainingFolder::create(job, model, false);
  const auto leave = [&] {
    fs::create_directories(folder.file("m.new-123456/cache"));
    write_file(folder.file("m.new-123456/cache/training.ids"), "half");
    fs::create_directories(folder.file("m.old-77"));
    fs::create_directories(model + "/averages");
    for (const char* name : {"/model.safetensors.tmp-1-0", "/averages/step-000000002.safetensors.tmp-99-3"}) {
      write_file(model + name, "half");
    }
  };
  // What only looks alike is somebody's own.
  fs::create_directories(folder.file("m.new-ideas"));
  fs::create_directories(folder.file("mm.new-1"));
  write_file(model + "/notes.tmp-today", "mine");
  leave();
  TrainingFolder::open(model);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "m.new-ideas", "mm.new-1", "p"}));
  EXPECT_EQ(names_in(model + "/averages"), std::vector<std::string>{});
  EXPECT_TRUE(fs::exists(model + "/notes.tmp-today"));
  EXPECT_FALSE(fs::exists(model + "/model.safetensors.tmp-1-0"));
  leave();
  TrainingFolder::create(job, model, true);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "m.new-ideas", "mm.new-1", "p"}));
  EXPECT_FALSE(fs::exists(model + "/averages"));
}

TEST(ModelFolder, WhatCannotBeTrainedLeavesNothing) {
  const TemporaryFolder folder;
  const std::string pairs = testing::save(folder, "p", reversed_digits(40)),
                    text = testing::save(folder, "t", periodic_text(4));
  const auto refused = [&](const char* architecture, CorpusKind kind, const auto& change) {
    TrainingJob job = tiny_job(architecture, kind, kind == CorpusKind::text ? text : pairs);
    change(job);
    const std::string what = error_of([&] { TrainingFolder::create(job, folder.file("m"), false); });
    EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"p", "t"})) << what;
    return what;
  };
  EXPECT_EQ(refused("transformer", CorpusKind::tsv, [](TrainingJob& job) { job.model["heads"] = "3"; }),
            "MultiheadAttention: dim 16 is not divisible by heads 3");
  EXPECT_EQ(refused("gpt", CorpusKind::text, [](TrainingJob& job) { job.model["context"] = "500"; }),
            "the text to learn from has 43 tokens, it needs more than the context of 500");
  EXPECT_EQ(refused("transformer", CorpusKind::tsv, [](TrainingJob& job) { job.model["context"] = "0"; }),
            "the context must be at least 1 token, got 0");
  EXPECT_EQ(refused("transformer", CorpusKind::text, [](TrainingJob&) {}),
            "a model of architecture transformer learns from pairs: two aligned files, or one of lines with a tab");
  EXPECT_EQ(refused("gpt", CorpusKind::tsv, [](TrainingJob&) {}), "a model of architecture gpt learns from plain text");
  EXPECT_EQ(refused("gpt", CorpusKind::text, [](TrainingJob& job) { job.training.stop_on = StopMetric::bleu; }),
            "there is no BLEU for a model of architecture gpt; stop_on has to be loss");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.training.steps = 0, job.training.epochs = 0; }),
            "there is nothing to train: give --steps or --epochs");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.training.accumulate = 0; }),
            "accumulate and log_every must be at least 1");
  EXPECT_EQ(refused("encoder", CorpusKind::text, [](TrainingJob& job) { job.training.masked = 0; }),
            "masked-word training needs a share of masked words above 0");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.data.validation_share = 1; }),
            "the share of validation must be between 0 and 1, got 1");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.from = "/no/such/model"; }),
            "/no/such/model: there is no such model folder");
}

TEST(ModelFolder, AnotherArchitectureIsNoStart) {
  const TemporaryFolder folder;
  const std::string pairs = testing::save(folder, "p", reversed_digits(40));
  TrainingFolder::create(tiny_job("rnn", CorpusKind::tsv, pairs), folder.file("m"), false);
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, pairs);
  job.from = folder.file("m");
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, folder.file("n"), false); }),
            job.from + ": is a model of architecture rnn, expected transformer");
}

TEST(ModelFolder, SizesOfTheStartStay) {
  const TemporaryFolder folder;
  const std::string pairs = testing::save(folder, "p", reversed_digits(40));
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, pairs);
  TrainingFolder::create(job, folder.file("m"), false);
  job.from = folder.file("m");
  job.model = {{"hidden", "48"}};
  EXPECT_THAT(error_of([&] { TrainingFolder::create(job, folder.file("n"), false); }),
              ::testing::HasSubstr("in the model to start from, but [48, 16] in the new one: sizes cannot change"));
  job.model = {{"dropout", "0.3"}};
  TrainingFolder::create(job, folder.file("n"), false);
}

TEST(ModelFolder, OfTwoThatAreMadeAtOnceTheFirstStays) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  const auto meanwhile = [&](const std::string&, double) {
    fs::create_directory(model);
    write_file(model + "/note", "first");
  };
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, model, false, meanwhile); }),
            model + ": another process has made this folder meanwhile");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "p"}));
  EXPECT_EQ(file_text(model + "/note"), "first");
}

TEST(ModelFolder, BehindALinkIsTheOneThatIsMade) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  fs::create_directory(folder.file("real"));
  fs::create_directory_symlink(folder.file("real"), folder.file("link"));
  TrainingFolder::create(job, folder.file("link"), false);
  TrainingFolder::create(job, folder.file("link"), true);
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_TRUE(fs::exists(folder.file("real") + "/config.json"));
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, ".", true); }),
            ".: is the folder you are in; name another one to make");
}

TEST(TrainingData, OfPlainTextIsNotValidatedWith) {
  const TemporaryFolder folder;
  for (const bool by_line : {false, true}) {
    const Dataset data = prepare_dataset({.corpus = {.files = {testing::save(folder, "t", periodic_text(50))}},
                                          .validation_share = 0.25,
                                          .tokenizer = "char",
                                          .by_line = by_line},
                                         folder.file("data"));
    EXPECT_EQ(data.split, 0.75);
  }
}

TEST(TrainingData, FromAPipeIsReadOnceAndNamedAsTheUserDid) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto prepare = [&](const std::string& text) {
    std::thread writer([&] { std::ofstream(pipe) << text; });
    std::string what = "no error";
    try {
      prepare_dataset({.corpus = {.kind = CorpusKind::tsv, .files = {pipe}}, .tokenizer = "char"}, folder.file("data"));
    } catch (const Error& error) {
      what = error.what();
    }
    writer.join();
    return what;
  };
  EXPECT_EQ(prepare(reversed_digits(40)), "no error");
  EXPECT_EQ(open_dataset(folder.file("data")).training.size(), 40);
  EXPECT_EQ(names_in(folder.file("data/cache")), (std::vector<std::string>{"dataset.json", "training.ids"}));
  EXPECT_EQ(prepare("1\t2\n\xff\t3\n"), pipe + ":2: not UTF-8");
}

TEST(TrainingData, IsTheSameWithCarriageReturnsAndAByteOrderMark) {
  const TemporaryFolder folder;
  std::string unix_text, windows_text = "\xef\xbb\xbf";
  for (int i = 0; i < 20; ++i) {
    unix_text += "今天天气很好\tnice weather 🌤\n";
    windows_text += "今天天气很好\tnice weather 🌤\r\n";
  }
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& text : {unix_text, windows_text}) {
    const Dataset data = prepare_dataset(
        {.corpus = {.kind = CorpusKind::tsv, .files = {testing::save(folder, "t", text)}}, .tokenizer = "char"},
        folder.file("data"));
    for (const int64_t column : {0, 1}) {
      const auto row = data.training.sequence(0, column);
      ids.emplace_back(row.begin(), row.end());
    }
    EXPECT_EQ(data.tokenizer->decode(ids[ids.size() - 2]), "今天天气很好");
    EXPECT_EQ(data.tokenizer->decode(ids.back()), "nice weather 🌤");
  }
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_EQ(ids[1], ids[3]);
}

}  // namespace
}  // namespace attend
