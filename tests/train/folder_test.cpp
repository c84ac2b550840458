// A model folder appears complete or not at all, one process at a time uses it, and a failed start leaves no files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "attend/base/error.h"
#include "attend/io/files.h"
#include "attend/models/registry.h"
#include "io/scratch_folder.h"
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

TEST(ModelFolder, IsReplacedOnlyWithOverwrite) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  TrainingFolder::create(job, model + "/", false);
  write_file(model + "/note", "mine");
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, model, false); }),
            model + " already exists; use --resume or --overwrite");
  EXPECT_EQ(file_text(model + "/note"), "mine");
  TrainingFolder::create(job, model, true);
  EXPECT_FALSE(fs::exists(model + "/note"));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "p"}));
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, folder.file("p"), true); }),
            folder.file("p") + ": is a file; expected a folder");
}

TEST(ModelFolder, IsUsedByOneProcessAtATime) {
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

TEST(ModelFolder, OnlyLeftoversOfKilledProcessesAreRemoved) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  // The user's own folders, with similar names.
  const std::vector<std::string> own{"m.new-123456", "m.new-ideas", "m.old-20240101", "mm.new-1"};
  for (const std::string& name : own) {
    fs::create_directories(folder.file(name));
    write_file(folder.file(name + "/note"), "mine");
  }
  TrainingFolder::create(job, model, false);
  const std::vector<std::string> files{"/checkpoint.safetensors.tmp-1-0", "/notes.tmp-2-3", "/.attend-notes"};
  for (const std::string& name : files) write_file(model + name, "mine");
  const auto leave = [&](const std::string& path) {
    fs::create_directories(path);
    ASSERT_TRUE(add_mark(path, fs::path(path).filename().string()));
    write_file(path + "/half", "half");
  };
  std::vector<std::string> expected = own;
  expected.insert(expected.begin(), "m");
  expected.push_back("p");
  for (const bool overwrite : {false, true}) {
    leave(folder.file("m.new-77"));
    leave(folder.file("m.old-77"));
    leave(model + "/.attend-77");
    leave(model + "/averages/.attend-77-2");
    if (overwrite) {
      TrainingFolder::create(job, model, true);
    } else {
      TrainingFolder::open(model);
      EXPECT_EQ(names_in(model + "/averages"), std::vector<std::string>{});
      for (const std::string& name : files) EXPECT_EQ(file_text(model + name), "mine");
    }
    EXPECT_EQ(names_in(folder.path()), expected);
    EXPECT_FALSE(fs::exists(model + "/.attend-77"));
    for (const std::string& name : own) EXPECT_EQ(file_text(folder.file(name + "/note")), "mine");
  }
}

TEST(ModelFolder, IsNotResumedWithoutItsCheckpoint) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  TrainingFolder::create(tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40))), model,
                         false)
      .run();
  fs::remove(model + "/checkpoint.safetensors");
  const std::string weights = file_text(model + "/model.safetensors"), log = file_text(model + "/training.jsonl");
  EXPECT_EQ(error_of([&] { TrainingFolder::open(model); }),
            model +
                ": there is no checkpoint.safetensors to resume from; start over with -o and --overwrite, or train "
                "a new model from these weights with --from " +
                model);
  EXPECT_EQ(file_text(model + "/model.safetensors"), weights);
  EXPECT_EQ(file_text(model + "/training.jsonl"), log);
}

/// Training state is read and written only inside the folder.
TEST(ModelFolder, NeverFollowsLinksOfItsTrainingState) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m"), outside = folder.file("outside");
  TrainingFolder::create(tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40))), model,
                         false)
      .run();
  for (const char* name : {"checkpoint.safetensors", "training.json", "training.jsonl", "cache/training.ids",
                           "cache/dataset.json", "cache"}) {
    const std::string path = model + "/" + name;
    fs::rename(path, outside);
    fs::create_symlink(outside, path);
    const std::string before = fs::is_directory(outside) ? "" : file_text(outside);
    const std::string what = error_of([&] { TrainingFolder::open(model).run(); });
    EXPECT_NE(what.find(path + ": expected a "), std::string::npos) << what;
    EXPECT_NE(what.find("got a symbolic link"), std::string::npos) << what;
    if (!before.empty()) {
      EXPECT_EQ(file_text(outside), before) << name;
    }
    fs::remove(path);
    fs::rename(outside, path);
  }
  write_file(outside, "mine");
  fs::remove(model + "/loss.svg");
  fs::create_symlink(outside, model + "/loss.svg");
  fs::create_directory(folder.file("elsewhere"));
  write_file(folder.file("elsewhere/step-000000099.safetensors"), "mine");
  TrainingFolder::open(model).run();
  EXPECT_EQ(file_text(outside), "mine");
  fs::create_directory_symlink(folder.file("elsewhere"), model + "/averages");
  EXPECT_EQ(error_of([&] { TrainingFolder::open(model).run(); }),
            model + "/averages: expected a folder, got a file or a link");
  EXPECT_EQ(file_text(folder.file("elsewhere/step-000000099.safetensors")), "mine");
}

TEST(ModelFolder, IsTrainedEvenIfTheLossCurveCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  TrainingFolder made = TrainingFolder::create(
      tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40))), model, false);
  fs::create_directory(model + "/loss.svg");
  std::vector<std::string> notes;
  TrainingObserver observer;
  observer.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(made.run(observer).end, TrainingOutcome::End::finished);
  EXPECT_EQ(notes, std::vector<std::string>{"Cannot draw the loss curve: " + model +
                                            "/loss.svg: cannot create: a folder has this name"});
  EXPECT_TRUE(fs::is_directory(model + "/loss.svg"));
}

/// A damaged model gives another error, so this also shows that the lock is taken first.
TEST(ModelFolder, IsLockedBeforeItIsRead) {
  const TemporaryFolder folder;
  const std::string model = folder.file("m");
  const TrainingFolder held = TrainingFolder::create(
      tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40))), model, false);
  write_file(model + "/model.safetensors", "half");
  EXPECT_EQ(error_of([&] { TrainingFolder::open(model); }), model + ": another process is training this model");
}

TEST(ModelFolder, BehindALoopOfLinksIsRefused) {
  const TemporaryFolder folder;
  fs::create_symlink("loop", folder.file("loop"));
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, folder.file("loop"), false); }),
            folder.file("loop") + ": cannot follow this link: Too many levels of symbolic links");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"loop", "p"}));
}

TEST(ModelFolder, AnInvalidJobLeavesNoFiles) {
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
            "'dim' must be a multiple of 'heads', got 16 and 3");
  EXPECT_EQ(refused("gpt", CorpusKind::text, [](TrainingJob& job) { job.model["key_heads"] = "3"; }),
            "'heads' must be a multiple of 'key_heads', got 2 and 3");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.model["state_dim"] = "15"; }),
            "'state_dim' must be even if 'bidirectional' is on, got 15");
  EXPECT_EQ(refused("gpt", CorpusKind::text, [](TrainingJob& job) { job.model["context"] = "500"; }),
            "the training text has 43 tokens, but needs more than the context of 500");
  EXPECT_EQ(refused("transformer", CorpusKind::tsv, [](TrainingJob& job) { job.model["context"] = "0"; }),
            "'context' must be at least 1, got 0");
  EXPECT_EQ(refused("transformer", CorpusKind::tsv, [](TrainingJob& job) { job.model["context"] = "2"; }),
            "none of the 39 training examples fit into a 'context' of 2 tokens");
  EXPECT_EQ(refused("transformer", CorpusKind::text, [](TrainingJob&) {}),
            "architecture transformer is trained on pairs: two aligned files, or one file with a tab in each line");
  EXPECT_EQ(refused("gpt", CorpusKind::tsv, [](TrainingJob&) {}), "architecture gpt is trained on plain text");
  EXPECT_EQ(refused("gpt", CorpusKind::text, [](TrainingJob& job) { job.training.stop_on = StopMetric::bleu; }),
            "'stop_on' must be loss for architecture gpt, which has no BLEU");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.training.steps = 0, job.training.epochs = 0; }),
            "expected 'steps' or 'epochs' above 0");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.training.accumulate = 0; }),
            "'accumulate' must be at least 1, got 0");
  EXPECT_EQ(refused("encoder", CorpusKind::text, [](TrainingJob& job) { job.training.masked = 0; }),
            "'masked' must be above 0 for masked language modelling, got 0");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.data.validation_share = 1; }),
            "the validation share must be between 0 and 1, got 1");
  EXPECT_EQ(refused("rnn", CorpusKind::tsv, [](TrainingJob& job) { job.from = "/no/such/model"; }),
            "/no/such/model: no such model folder");
}

TEST(ModelFolder, CannotStartFromAnotherArchitecture) {
  const TemporaryFolder folder;
  const std::string pairs = testing::save(folder, "p", reversed_digits(40));
  TrainingFolder::create(tiny_job("rnn", CorpusKind::tsv, pairs), folder.file("m"), false);
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, pairs);
  job.from = folder.file("m");
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, folder.file("n"), false); }),
            job.from + ": is a model of architecture rnn, expected transformer");
}

TEST(ModelFolder, CannotChangeSizesOfTheModelItStartsFrom) {
  const TemporaryFolder folder;
  const std::string pairs = testing::save(folder, "p", reversed_digits(40));
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, pairs);
  TrainingFolder::create(job, folder.file("m"), false);
  job.from = folder.file("m");
  job.model = {{"ffn_dim", "48"}};
  EXPECT_THAT(error_of([&] { TrainingFolder::create(job, folder.file("n"), false); }),
              ::testing::HasSubstr("in the model to start from, but [48, 16] in the new one: sizes cannot change"));
  job.model = {{"dropout", "0.3"}};
  TrainingFolder::create(job, folder.file("n"), false);
}

TEST(ModelFolder, OfTwoCreatedAtOnceTheFirstStays) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  const std::string model = folder.file("m");
  const auto meanwhile = [&](const std::string&, double) {
    fs::create_directory(model);
    write_file(model + "/note", "first");
  };
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, model, false, meanwhile); }),
            model + ": another process has created this folder in the meantime");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"m", "p"}));
  EXPECT_EQ(file_text(model + "/note"), "first");
}

TEST(ModelFolder, IsCreatedAtTheTargetOfALink) {
  const TemporaryFolder folder;
  const TrainingJob job = tiny_job("rnn", CorpusKind::tsv, testing::save(folder, "p", reversed_digits(40)));
  fs::create_directory(folder.file("real"));
  fs::create_directory_symlink(folder.file("real"), folder.file("link"));
  TrainingFolder::create(job, folder.file("link"), false);
  TrainingFolder::create(job, folder.file("link"), true);
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_TRUE(fs::exists(folder.file("real") + "/config.json"));
  EXPECT_EQ(error_of([&] { TrainingFolder::create(job, ".", true); }),
            ".: is the current folder; expected another one");
}

TEST(TrainingData, OfPlainTextDoesNotOverlapValidation) {
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

TEST(TrainingData, FromAPipeIsReadOnceAndKeepsItsNameInErrors) {
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
