// Requests to a model while training replaces it. Also run under the thread sanitizer.
#include "attend/serve/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "serve/http_testing.h"
#include "train/train_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

TEST(Watch, TheModelIsReplacedDuringRequests) {
  const InspectedModel first = tiny_inspected("gpt");
  const auto feed = std::make_shared<TrainingFeed>(1000, WatchedSentence{.text = "hello", .target = {}});
  feed->add_snapshot(0, tiny_run(first, {.text = "hello"}));
  Api api({first}, {.most_waiting = 100});
  api.set_training(0, feed);
  std::atomic<bool> is_over = false;
  std::thread training([&] {
    while (!is_over) api.replace_model(0, tiny_inspected("gpt").model);
  });
  const std::vector<ApiRequest> requests = {
      {.method = "POST", .path = "/api/training/sentence", .query = {}, .body = R"({"text":"other"})"},
      {.path = "/api/info", .query = {}, .body = {}},
      {.path = "/api/runs/t0/heads", .query = {}, .body = {}},
      {.method = "POST", .path = "/api/runs", .query = {}, .body = R"({"model":"m0","text":"hello"})"}};
  std::vector<std::thread> readers;
  for (const ApiRequest& request : requests) {
    readers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(api.handle(request).status, 200) << request.path;
    });
  }
  for (std::thread& reader : readers) reader.join();
  is_over = true;
  training.join();
}

TEST(Watch, ATrainingIsFollowedOverHttp) {
  const TemporaryFolder folder;
  TrainingJob job = tiny_job("transformer", CorpusKind::tsv, save(folder, "p", reversed_digits(40)));
  job.training.steps = 60;
  TrainingFolder trained = TrainingFolder::create(job, folder.file("m"), false);
  auto watch = std::make_unique<TrainingWatch>(
      trained, WatchOptions{.server = {.port = 0}, .version = "1", .page = {}, .name = "m", .text = "123"});
  const int port = std::stoi(watch->address().substr(watch->address().rfind(':') + 1));
  const auto ask = [&](const std::string& line, const std::string& body = {}) {
    return testing::exchange(port, line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                                       std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  std::atomic<bool> is_over = false;
  std::string events;
  std::thread listener([&] { events = ask("GET /api/training/events"); });
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        EXPECT_EQ(status_of(ask("POST /api/training/sentence", R"({"text":"321","target":"123"})")), 200);
        const std::string run = ask("POST /api/runs", R"({"model":"m0","text":"123","target":"321"})");
        EXPECT_EQ(status_of(run), 200) << run;
      }
    });
  }
  EXPECT_EQ(trained.run(watch->observer({})).end, TrainingOutcome::End::finished);
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  watch->finish();
  const Json told = Json::parse(body_of(ask("GET /api/training")));
  EXPECT_EQ(told["running"], false);
  EXPECT_EQ(told["text"], "321");
  EXPECT_GT(told["snapshots"].size(), 10u);
  const std::string last = told["snapshots"].back()["run"];
  EXPECT_EQ(Json::parse(body_of(ask("GET /api/runs/" + last)))["sides"][0]["text"], "321");
  EXPECT_EQ(body_of(ask("POST /api/training/sentence", R"({"text":"1"})")), R"({"error":"nothing is being trained"})");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that the listener receives the last event
  watch.reset();
  listener.join();
  EXPECT_NE(events.find("data: "), std::string::npos);
}

/// At each snapshot, the current model translates a sentence without a target, and the run shows that translation.
TEST(Watch, ASentenceWithoutATargetIsTranslated) {
  const TemporaryFolder folder;
  std::string pairs;
  for (int i = 0; i < 80; ++i) pairs += "one\tab\ntwo\tcd\n";
  TrainingJob job{
      .architecture = "transformer",
      .model = {{"dim", "16"}, {"heads", "2"}, {"ffn_dim", "32"}},
      .data = {.corpus = {.kind = CorpusKind::tsv, .files = {save(folder, "pairs.tsv", pairs)}}, .tokenizer = "char"}};
  job.training.steps = 200;
  job.training.lr = 5e-3;
  job.training.schedule = ScheduleKind::constant;
  TrainingFolder made = TrainingFolder::create(job, folder.file("model"), false);
  WatchOptions options;
  options.server.port = 0;
  options.text = "one";
  TrainingWatch watch(made, options);
  made.run(watch.observer({}));
  watch.finish();
  const int port = std::stoi(watch.address().substr(watch.address().rfind(':') + 1));
  const auto get = [&](const std::string& path) {
    return Json::parse(
        body_of(testing::exchange(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")));
  };
  const Json training = get("/api/training");
  EXPECT_EQ(training["text"], "one");
  ASSERT_GE(training["snapshots"].size(), 3u);
  const auto target = [&](const Json& snapshot) {
    const Json run = get("/api/runs/" + snapshot["run"].get<std::string>());
    EXPECT_LE(run["sides"][1]["tokens"].size(), 33u);  // the start token and at most 32 more
    return run["sides"][1]["text"].get<std::string>();
  };
  EXPECT_EQ(target(training["snapshots"].back()), "ab");
  EXPECT_NE(target(training["snapshots"].front()), "ab");
}

}  // namespace
}  // namespace attend::testing
