#include "attend/serve/api.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "attend/inspect/arrays.h"
#include "inspect/inspect_testing.h"
#include "testing/temporary_folder.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

Api tiny_api(ApiOptions options = {}) {
  return Api({tiny_inspected("transformer"), tiny_inspected("gpt"), tiny_inspected("rnn-attention"),
              tiny_inspected("encoder")},
             std::move(options));
}

ApiResponse get(Api& api, const std::string& path, std::map<std::string, std::string> query = {}) {
  return api.handle({.method = "GET", .path = path, .query = std::move(query), .body = {}});
}
ApiResponse post(Api& api, const std::string& path, const Json& body) {
  return api.handle({.method = "POST", .path = path, .query = {}, .body = body.dump()});
}
Json answer(const ApiResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return Json::parse(response.body);
}
void expect_refused(const ApiResponse& response, int status, const std::string& message) {
  EXPECT_EQ(response.status, status);
  EXPECT_EQ(Json::parse(response.body)["error"], message);
}
std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}
std::string streamed(const ApiResponse& response) {
  std::string all;
  response.stream([&](std::string_view piece) { return all += piece, true; });
  return all;
}

TEST(Api, ListsItsModels) {
  Api api = tiny_api({.version = "9.8"});
  const Json info = answer(get(api, "/api/info"));
  EXPECT_EQ(info["version"], "9.8");
  EXPECT_EQ(info["training"], false);
  ASSERT_EQ(info["models"].size(), 4u);
  EXPECT_EQ(info["models"][0]["id"], "m0");
  EXPECT_EQ(info["models"][0]["kind"], "translation");
  EXPECT_EQ(info["models"][3]["labels"].size(), 3u);
  EXPECT_GT(info["models"][0]["parameters"].get<int64_t>(), 1000);
  EXPECT_EQ(info["models"][1]["context"], 64);
}

/// The server and the offline file give the same numbers.
TEST(Api, GivesTheNumbersOfTheOfflineFile) {
  Api api = tiny_api();
  size_t number = 0;
  for (const char* architecture : {"transformer", "gpt", "rnn-attention", "encoder"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const std::string id = "m" + std::to_string(number++);
    const bool is_pair = model.model->kind() == ModelKind::translation;
    const attend::Run run = tiny_run(model, {.text = "hello <b>"});
    const Json file = Json::parse(inspect_document(model, run, {}));
    Json body{{"model", id}, {"text", "hello <b>"}};
    if (is_pair) body["target"] = "dcba";
    Json got = answer(post(api, "/api/runs", body));
    const std::string path = "/api/runs/" + got["id"].get<std::string>();
    EXPECT_EQ(answer(get(api, path))["sides"], got["sides"]);
    for (const char* key : {"sides", "attention", "values", "output"}) EXPECT_EQ(got[key], file["run"][key]) << key;
    EXPECT_EQ(answer(get(api, path + "/heads")), file["heads"]);
    EXPECT_EQ(answer(get(api, path + "/stats", {{"attention", "0"}, {"head", "0"}})), file["stats"]["0/0"]);
    if (is_pair) {
      EXPECT_EQ(answer(get(api, path + "/alignment", {{"layer", "all"}})), file["alignment"]);
    }
    EXPECT_EQ(answer(get(api, "/api/models/" + id + "/embeddings")), file["embeddings"]);
    for (const auto& [name, stored] : file["arrays"].items()) {
      const ApiResponse response = get(api, path + "/array", {{"name", name}});
      ASSERT_EQ(response.status, 200) << name;
      const std::vector<float> values = floats(response.body);
      ASSERT_EQ(static_cast<int64_t>(values.size()), array_size(run, name)) << name;
      EXPECT_EQ(values, run_array(run, name).values) << name;
      std::string shape;
      for (const Json& dim : stored["shape"]) shape += (shape.empty() ? "" : ",") + std::to_string(dim.get<int>());
      EXPECT_EQ(response.headers.at("X-Shape"), shape);
    }
  }
}

/// Pictures can be uploaded while a generation holds the model.
TEST(Api, PicturesAreDecodedOutsideTheModelsTurn) {
  Api api({tiny_inspected("gpt")}, {});
  const std::string png = encode_png(*motley_picture(12, 7));
  std::future<ApiResponse> upload;
  bool has_begun = false;
  const ApiResponse text = post(api, "/api/generate", {{"model", "m0"}, {"text", "ab"}});
  ASSERT_TRUE(text.stream);
  text.stream([&](std::string_view) {
    has_begun = true;
    upload = std::async(std::launch::async, [&] {
      return api.handle({.method = "POST", .path = "/api/pictures", .query = {}, .body = png});
    });
    EXPECT_EQ(upload.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    return false;
  });
  ASSERT_TRUE(has_begun);
  EXPECT_EQ(upload.get().status, 200);
}

TEST(Api, TakesPicturesByUploadOnly) {
  InspectedModel model = tiny_vision();
  Api empty({model}, {});
  expect_refused(post(empty, "/api/runs", {{"model", "m0"}}), 400, "expected 'picture'");
  model.example = "example.png";
  model.example_picture = motley_picture(6, 6);
  Api api({model}, {});
  EXPECT_EQ(answer(post(api, "/api/runs", {{"model", "m0"}}))["sides"][0]["text"], "example.png");
  const auto upload = [&](const std::string& body, std::map<std::string, std::string> query = {}) {
    return api.handle({.method = "POST", .path = "/api/pictures", .query = std::move(query), .body = body});
  };
  const std::string png = encode_png(*motley_picture(12, 7));
  const Json stored = answer(upload(png, {{"name", "狗 <b>.png"}}));
  EXPECT_EQ(stored, Json::parse(R"({"id": "p0"})"));
  const Json run = answer(post(api, "/api/runs", {{"model", "m0"}, {"picture", "p0"}}));
  EXPECT_EQ(run["sides"][0]["text"], "狗 <b>.png");
  EXPECT_EQ(run["sides"][0]["tokens"].size(), 5u);
  const attend::Run expected = capture(model, {.text = "x", .picture = motley_picture(12, 7)});
  EXPECT_EQ(run["output"]["items"][0]["p"], expected.output.labels[0].score);
  expect_refused(upload("/etc/passwd"), 400, "the picture: expected a PNG or a JPEG");
  expect_refused(upload(png, {{"name", std::string(2000, 'x')}}), 400, "the picture's name is too long");
  for (const char* id : {"p1", "/etc/passwd", ""}) {
    expect_refused(post(api, "/api/runs", {{"model", "m0"}, {"picture", id}}), 404,
                   "there is no picture '" + std::string(id) + "'; it may have expired");
  }
  expect_refused(get(api, "/api/pictures"), 405, "/api/pictures takes POST, not 'GET'");
  for (int i = 0; i < 16; ++i) answer(upload(png));
  EXPECT_EQ(post(api, "/api/runs", {{"model", "m0"}, {"picture", "p0"}}).status, 404);  // only the newest are kept
  EXPECT_EQ(post(api, "/api/runs", {{"model", "m0"}, {"picture", "p16"}}).status, 200);
}

TEST(Api, ImageModelsHaveNoTokens) {
  InspectedModel model = tiny_vision();
  model.example_picture = motley_picture(6, 6);
  Api api({model}, {});
  const std::string run = "/api/runs/" + answer(post(api, "/api/runs", {{"model", "m0"}}))["id"].get<std::string>();
  EXPECT_EQ(get(api, run + "/heads").status, 200);
  expect_refused(get(api, run + "/alignment"), 400, "an image model has no words to align");
  EXPECT_EQ(get(api, "/api/models/m0/embeddings", {{"kind", "positions"}}).status, 200);
  expect_refused(get(api, "/api/models/m0/embeddings"), 400, "an image model has no tokens");
  expect_refused(get(api, "/api/models/m0/neighbours", {{"token", "1"}}), 400, "an image model has no tokens");
  expect_refused(post(api, "/api/generate", {{"model", "m0"}, {"text", "a"}}), 400,
                 "generate: architecture vision does not generate text");
}

TEST(Api, GivesPartsOfArrays) {
  Api api = tiny_api();
  const std::string id = answer(post(api, "/api/runs", {{"model", "m1"}, {"text", "hello you"}}))["id"];
  const ApiResponse part =
      get(api, "/api/runs/" + id + "/array", {{"name", "weights/0/0"}, {"rows", "2:4"}, {"columns", "1:3"}});
  EXPECT_EQ(part.headers.at("X-Shape"), "2,2");
  EXPECT_EQ(part.type, "application/octet-stream");
  EXPECT_EQ(part.body.size(), 16u);
  expect_refused(get(api, "/api/runs/" + id + "/array", {{"name", "weights/0/0"}, {"rows", "2"}}), 400,
                 "expected 'rows=a:b', got '2'");
}

TEST(Api, AblationChangesTheRun) {
  Api api = tiny_api();
  Json body{{"model", "m1"}, {"text", "hello"}};
  const Json whole = answer(post(api, "/api/runs", body));
  body["ablate"] = {{"heads", {{{"attention", 0}, {"head", 1}}}}, {"tokens", {{{"side", 0}, {"index", 1}}}}};
  const Json without = answer(post(api, "/api/runs", body));
  EXPECT_NE(whole["output"], without["output"]);
  EXPECT_EQ(without["attention"][0]["off"], Json::parse("[1]"));
}

TEST(Api, GeneratesAndSearchesNeighbours) {
  Api api = tiny_api();
  const ApiResponse response =
      post(api, "/api/generate", {{"model", "m0"}, {"text", "abc"}, {"beam", 2}, {"length", 5}});
  EXPECT_EQ(response.type, "application/x-ndjson");
  std::istringstream lines(streamed(response));
  std::string first, line, last;
  std::getline(lines, first);
  while (std::getline(lines, line)) last = line;
  EXPECT_EQ(Json::parse(first)["sides"][0]["text"], "abc");
  EXPECT_EQ(Json::parse(last)["done"], true);
  const Json found = answer(get(api, "/api/models/m1/neighbours", {{"text", "a"}, {"count", "3"}}));
  EXPECT_EQ(found["token"]["text"], "a");
  EXPECT_EQ(found["dot"].size(), 3u);
  EXPECT_EQ(answer(get(api, "/api/models/m0/embeddings", {{"kind", "positions"}, {"limit", "7"}}))["points"].size(),
            7u);
}

TEST(Api, ForgetsOldRuns) {
  Api api = tiny_api({.most_runs = 2});
  for (int i = 0; i < 3; ++i) answer(post(api, "/api/runs", {{"model", "m1"}, {"text", "hello"}}));
  EXPECT_EQ(get(api, "/api/runs/r2").status, 200);
  expect_refused(get(api, "/api/runs/r0"), 404, "there is no run 'r0'; it may have expired");
}

TEST(Api, RefusesInOneLine) {
  Api api = tiny_api({.longest = 20});
  const auto raw = [&](const std::string& body) {
    return api.handle({.method = "POST", .path = "/api/runs", .query = {}, .body = body});
  };
  expect_refused(raw(""), 400, "expected a JSON object");
  expect_refused(raw("[1]"), 400, "expected a JSON object");
  expect_refused(raw("{\"text\":\"\xff\"}"), 400, "expected a JSON object");
  expect_refused(raw(std::string(100000, '[')), 400, "the JSON is nested too deep");
  expect_refused(raw("{}"), 400, "expected 'model'");
  expect_refused(raw(R"({"model":3})"), 400, "expected text for 'model'");
  expect_refused(raw(R"({"model":"../../etc/passwd","text":"a"})"), 404, "there is no model '../../etc/passwd'");
  expect_refused(raw(R"({"model":"m1"})"), 400, "expected 'text'");
  expect_refused(raw(R"({"model":"m1","text":"a","ablate":7})"), 400, "expected an object for 'ablate'");
  expect_refused(raw(R"({"model":"m1","text":"a","ablate":{"heads":[3]}})"), 400, "expected objects in 'heads'");
  expect_refused(raw(R"({"model":"m1","text":"a","ablate":{"heads":[{"attention":1.5}]}})"), 400,
                 "expected a whole number for 'attention'");
  expect_refused(raw(R"({"model":"m1","text":"a","ablate":{"heads":[{"attention":0,"head":18446744073709551615}]}})"),
                 400, "the number for 'head' is too large");
  expect_refused(raw(R"({"model":"m1","text":")" + std::string(30, 'a') + "\"}"), 400,
                 "inspect: the text has 30 tokens; at most 20 can be inspected");
  expect_refused(raw(R"({"model":"m1","text":")" + std::string(1100000, 'a') + "\"}"), 413,
                 "the text is longer than a MiB");
  expect_refused(get(api, "/api/runs"), 405, "/api/runs takes POST, not 'GET'");
  expect_refused(get(api, "/etc/passwd"), 404, "no such path: '/etc/passwd'");
  expect_refused(get(api, "/api/runs/r7/weights"), 404, "there is no run 'r7'; it may have expired");
  expect_refused(get(api, "/api/models/m9/embeddings"), 404, "there is no model 'm9'");
  expect_refused(get(api, "/api/models/m0"), 404, "expected embeddings, neighbours or tokens of a model, got ''");
  expect_refused(get(api, "/api/models/m0/embeddings", {{"limit", "-4"}}), 400,
                 "expected a whole number for 'limit', got '-4'");
  expect_refused(get(api, "/api/models/m0/neighbours"), 400, "expected 'token' or 'text'");
  expect_refused(get(api, "/api/models/m0/neighbours", {{"token", "99999999999"}}), 400,
                 "neighbours: there is no token 2147483647; there are " +
                     std::to_string(tiny_inspected("gpt").tokenizer->size()) + ", counted from 0");
  expect_refused(post(api, "/api/generate", {{"model", "m3"}, {"text", "a"}}), 400,
                 "generate: architecture encoder does not generate text");
  expect_refused(post(api, "/api/training/sentence", {{"text", "a"}}), 409, "nothing is being trained");
  expect_refused(get(api, "/api/training/events"), 404, "nothing is being trained");
  const std::string id = answer(post(api, "/api/runs", {{"model", "m1"}, {"text", "hello"}}))["id"];
  expect_refused(get(api, "/api/runs/" + id + "/stats"), 400, "expected 'attention' in the address");
  expect_refused(get(api, "/api/runs/" + id + "/alignment"), 400,
                 "align: this model has no cross-attention, so there is no alignment");
  expect_refused(get(api, "/api/runs/" + id + "/nothing"), 404,
                 "expected heads, stats, alignment, logits or array of a run, got 'nothing'");
  EXPECT_EQ(get(api, "/api/runs/" + id).status, 200);  // the run still exists
}

TEST(Api, ServesThePageItWasGiven) {
  Api without = tiny_api(), with = tiny_api({.page = "packed"});
  EXPECT_NE(get(without, "/").body.find("built without its page"), std::string::npos);
  const ApiResponse page = get(with, "/view/heads");
  EXPECT_EQ(page.body, "packed");
  EXPECT_EQ(page.headers.at("Content-Encoding"), "gzip");
  EXPECT_NE(page.headers.at("Content-Security-Policy").find("default-src 'none'"), std::string::npos);
}

TEST(Api, AnswersManyAtOnce) {
  Api api = tiny_api({.most_waiting = 2});
  std::atomic<int> good = 0, busy = 0, other = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 6; ++n) {
        const int status = post(api, "/api/runs", {{"model", "m0"}, {"text", "hello"}, {"target", "you"}}).status;
        ++(status == 200 ? good : status == 503 ? busy : other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good, 0);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(good + busy, 48);
}

/// A stream counts as open from the response until it is destroyed, even if it is sent later or fails.
TEST(Api, LimitsOpenStreams) {
  Api api = tiny_api({.most_streams = 2});
  const Json body{{"model", "m1"}, {"text", "abc"}, {"length", 2}};
  {
    const ApiResponse first = post(api, "/api/generate", body), second = post(api, "/api/generate", body);
    expect_refused(post(api, "/api/generate", body), 503, "too many streams are open; try again");
    const auto throws = [](std::string_view) -> bool { throw Error("gone"); };
    EXPECT_THROW(first.stream(throws), Error);
    EXPECT_NE(streamed(second).find("\"done\":true"), std::string::npos);
    expect_refused(post(api, "/api/generate", body), 503, "too many streams are open; try again");
  }
  EXPECT_NE(streamed(post(api, "/api/generate", body)).find("\"done\":true"), std::string::npos);
}

/// Figures of long texts take seconds. Other requests wait or get 503.
TEST(Api, ComputesFiguresOneAtATime) {
  Api api({tiny_inspected("gpt", {{"context", "2048"}, {"positions", "sinusoidal"}})}, {.most_figures = 1});
  const std::string id = answer(post(api, "/api/runs", {{"model", "m0"}, {"text", std::string(2000, 'a')}}))["id"];
  std::atomic<int> good = 0, busy = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] {
      const ApiResponse response = get(api, "/api/runs/" + id + "/heads");
      ++(response.status == 200 ? good : busy);
      if (response.status == 200) return;
      expect_refused(response, 503, "too many requests are waiting for the model; try again");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good, 0);
  EXPECT_GT(busy, 0);
  EXPECT_EQ(get(api, "/api/runs/" + id + "/heads").status, 200);
}

TEST(Training, TheFeedReportsStepsAndKeepsSnapshots) {
  const InspectedModel model = tiny_inspected("gpt");
  const auto feed = std::make_shared<TrainingFeed>(1000, WatchedSentence{.text = "hello", .target = {}});
  Api api = tiny_api();
  api.set_training(0, feed);
  EXPECT_EQ(answer(get(api, "/api/info"))["training"], true);
  const size_t next = feed->next_event();
  feed->add(StepReport{.step = 50, .steps = 1000, .loss = 2.5, .lr = 0.1, .tokens_per_second = 7, .seconds_left = 3});
  feed->add(ValidationReport{.step = 100, .result = {.loss = 2}});
  for (int64_t step = 0; step < 200; ++step) feed->add_snapshot(step, tiny_run(model, {.text = "hello"}));
  const Json told = answer(get(api, "/api/training"));
  EXPECT_EQ(told["running"], true);
  EXPECT_EQ(told["total"], 1000);
  EXPECT_EQ(told["steps"][0]["tokensPerSecond"], 7);
  EXPECT_EQ(told["validation"][0]["loss"], 2);
  EXPECT_EQ(told["text"], "hello");
  ASSERT_EQ(told["snapshots"].size(), 48u);
  EXPECT_EQ(told["snapshots"][0]["run"], "t0");
  EXPECT_EQ(told["snapshots"][47]["step"], 199);
  EXPECT_EQ(get(api, "/api/runs/t0/array", {{"name", "weights/0/0"}}).status, 200);
  EXPECT_EQ(get(api, "/api/runs/t199").status, 200);
  int64_t answered = 0;  // snapshots that are listed or were dropped recently
  for (int64_t step = 0; step < 200; ++step) answered += get(api, "/api/runs/t" + std::to_string(step)).status == 200;
  EXPECT_EQ(answered, 48 + 16);
  EXPECT_EQ(get(api, "/api/runs/t198").status, 200);
  EXPECT_EQ(get(api, "/api/runs/t100000").status, 404);
  EXPECT_EQ(Json::parse(*feed->event(next, std::chrono::milliseconds(1)))["type"], "step");
  EXPECT_FALSE(feed->event(next + 1000, std::chrono::milliseconds(1)));
  EXPECT_EQ(answer(post(api, "/api/training/sentence", {{"text", "other"}}))["text"], "other");
  EXPECT_EQ(feed->sentence().text, "other");
  feed->finish();
  EXPECT_EQ(answer(get(api, "/api/training"))["running"], false);
}

TEST(Training, EachModelHasItsOwnRecord) {
  const TemporaryFolder first, second;
  std::ofstream(first.file("training.jsonl")) << R"({"step":50,"loss":2.5,"lr":0.1,"tokens_per_second":9})" << '\n';
  std::ofstream(second.file("training.jsonl")) << R"({"step":70,"loss":1.5,"lr":0.1,"tokens_per_second":9})" << '\n';
  std::ofstream(second.file("training.json")) << R"({"label_smoothing": 0.1})";
  Api api({tiny_inspected("gpt"), tiny_inspected("gpt"), tiny_inspected("gpt")}, {});
  api.set_training(0, TrainingFeed::from_log(first.path()));
  api.set_training(1, TrainingFeed::from_log(second.path()));
  api.set_training(2, TrainingFeed::from_log(first.path() + "/nothing"));
  const auto record = [&](const std::string& model) { return answer(get(api, "/api/training", {{"model", model}})); };
  EXPECT_EQ(record("m0")["total"], 50);
  EXPECT_EQ(record("m0")["labelSmoothing"], 0);
  EXPECT_EQ(record("m1")["total"], 70);
  EXPECT_EQ(record("m1")["labelSmoothing"], 0.1);
  EXPECT_TRUE(record("m2")["steps"].empty());
  EXPECT_EQ(get(api, "/api/training", {{"model", "m3"}}).status, 404);
  const Json models = answer(get(api, "/api/info"))["models"];
  EXPECT_EQ(models[1]["training"], true);
  EXPECT_EQ(models[2]["training"], false);
}

TEST(Training, SnapshotsAreOfOneSentence) {
  const InspectedModel model = tiny_inspected("gpt");
  TrainingFeed feed(1000, {.text = "hello", .target = {}});
  EXPECT_TRUE(feed.wants_snapshot());
  feed.add_snapshot(1, tiny_run(model, {.text = "hello"}));
  EXPECT_FALSE(feed.wants_snapshot());
  feed.set_sentence({.text = "other", .target = {}});
  EXPECT_TRUE(feed.wants_snapshot());
  feed.add_snapshot(2, tiny_run(model, {.text = "hello"}), WatchedSentence{.text = "hello", .target = {}});
  EXPECT_TRUE(Json::parse(feed.json())["snapshots"].empty()) << "a run of the sentence before";
  feed.add_snapshot(3, tiny_run(model, {.text = "other"}), WatchedSentence{.text = "other", .target = {}});
  const Json told = Json::parse(feed.json());
  ASSERT_EQ(told["snapshots"].size(), 1u);
  EXPECT_EQ(told["snapshots"][0]["step"], 3);
  EXPECT_EQ(told["text"], "other");
}

TEST(Api, EffectsRankTheHeads) {
  Api api({tiny_inspected("transformer"), tiny_inspected("encoder")}, {});
  const auto effects = [&](const std::string& model) {
    return answer(post(api, "/api/effects", {{"model", model}, {"text", "abc"}}))["effects"];
  };
  for (const char* model : {"m0", "m1"}) {
    const Json list = effects(model);
    const Json run = answer(post(api, "/api/runs", {{"model", model}, {"text", "abc"}}));
    size_t heads = 0;
    for (const Json& attention : run["attention"]) heads += attention["heads"].get<size_t>();
    if (run["output"]["kind"] == "none") continue;
    ASSERT_EQ(list.size(), heads);
    for (size_t i = 1; i < list.size(); ++i) EXPECT_GE(list[i - 1]["loss"], list[i]["loss"]);
  }
}

TEST(Api, FindsTokensAndProjectsThem) {
  Api api({tiny_inspected("gpt")}, {});
  const Json found = answer(get(api, "/api/models/m0/tokens", {{"contains", "Q"}}))["tokens"];
  ASSERT_EQ(found.size(), 2u) << "q and Q";
  const auto id = found[0]["id"].get<int64_t>();
  const Json plane = answer(get(api, "/api/models/m0/embeddings", {{"limit", "5"}, {"also", std::to_string(id)}}));
  ASSERT_EQ(plane["points"].size(), 6u);
  EXPECT_EQ(plane["points"][5]["id"], id);
  EXPECT_GT(plane["total"], 90);
  expect_refused(get(api, "/api/models/m0/tokens"), 400, "expected 'contains' of 1 to 1024 bytes");
}

TEST(Training, TheLogOfAFolderIsRead) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("training.jsonl"))
      << R"({"step":50,"epoch":1,"loss":2.5,"lr":0.1,"tokens_per_second":9.5})" << '\n'
      << R"({"step":100,"validation_loss":2.0,"bleu":12.5,"best":true})" << '\n'
      << "damaged\n"
      << R"({"step":100,"done":true,"validation_loss":2.0})" << '\n';
  const auto feed = TrainingFeed::from_log(folder.path());
  ASSERT_NE(feed, nullptr);
  const Json told = Json::parse(feed->json());
  EXPECT_EQ(told["running"], false);
  EXPECT_EQ(told["steps"].size(), 1u);
  ASSERT_EQ(told["validation"].size(), 1u);
  EXPECT_EQ(told["validation"][0]["bleu"], 12.5);
  EXPECT_EQ(told["total"], 100);
  EXPECT_EQ(TrainingFeed::from_log(folder.path() + "/nothing"), nullptr);
}

}  // namespace
}  // namespace attend::testing
