// How the work of requests takes turns, and what they may hold.
#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "attend/chat/chat_template.h"
#include "attend/generate/embed.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

ServedModel long_model() { return tiny_served("gpt", "gpt", {{"context", "4096"}, {"positions", "rotary"}}); }

/// A scheduler whose jobs write down their turns: "s" for a step of a sequence, other letters for computations. Turns
/// are counted once all jobs were added.
struct Turns {
  ServedModel model = long_model();
  ModelApiOptions options{.prompt_tokens = 8, .prompt_seconds = 0, .draft_tokens = 0};
  ModelMetrics metrics{};
  std::mutex mutex{};
  std::string turns{};
  Scheduler scheduler{model, options, metrics};

  void note(char turn) {
    const std::lock_guard lock(mutex);
    turns += turn;
  }

  /// Holds the thread until the future is ready, so that other jobs are added meanwhile.
  void hold(std::shared_future<void> gate) {
    scheduler.add({.client = "gate", .on_start = [gate = std::move(gate)] { gate.wait(); }});
  }

  void stream(int64_t tokens, std::promise<void>& done) {
    Sequence sequence{.prompt = {5}, .vocabulary = Vocabulary::of(*model.tokenizer, model.model->vocab_size())};
    sequence.vocabulary.ends.clear();
    sequence.options.ends_at_limit = false;
    sequence.limit = tokens;
    sequence.on_step = [this](const SequenceStep&) {
      note('s');
      return true;
    };
    sequence.on_done = [&done](const std::vector<Hypothesis>&) { done.set_value(); };
    Job job{.client = "stream", .tokens = tokens + 1};
    job.sequences.push_back(std::move(sequence));
    scheduler.add(std::move(job));
  }

  /// A computation of `count` texts, each with `parts` parts.
  void compute(char name, int count, int parts, std::function<bool()> is_wanted = {}) {
    auto done = std::make_shared<int>(0);
    Job job{.client = std::string(1, name), .is_wanted = std::move(is_wanted)};
    job.run = [this, name, done, parts, all = count * parts](int64_t) {
      note(name);
      ++*done;
      return Piece{.tokens = 1, .is_done = *done == all, .is_inside = *done % parts != 0};
    };
    scheduler.add(std::move(job));
  }
};

TEST(Scheduler, AStepRunsBetweenTwoPartsOfComputations) {
  Turns served;
  std::promise<void> open, done;
  served.hold(open.get_future().share());
  served.stream(30, done);
  for (const char name : {'a', 'b', 'c'}) served.compute(name, 3, 2);
  open.set_value();
  done.get_future().wait();
  served.scheduler.stop();
  EXPECT_EQ(std::ranges::count(served.turns, 's'), 30);
  size_t computed = 0;
  for (size_t i = 1; i < served.turns.size(); ++i) {
    const bool are_parts = served.turns[i] != 's' && served.turns[i - 1] != 's';
    EXPECT_FALSE(are_parts) << served.turns;
    computed += served.turns[i] != 's' ? 1 : 0;
  }
  EXPECT_GE(computed, 17u) << served.turns;
  std::erase(served.turns, 's');
  EXPECT_EQ(served.turns, "aabbccaabbccaabbcc") << "computations take turns between texts";
}

TEST(Scheduler, AHangUpEndsAComputationBetweenTwoParts) {
  Turns served;
  std::promise<void> open;
  std::atomic<int> asked = 0;
  served.hold(open.get_future().share());
  served.compute('a', 1000, 10, [&] { return ++asked < 5; });
  served.compute('b', 1, 2);
  open.set_value();
  for (int i = 0; i < 1000 && served.metrics.cancelled == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(served.metrics.cancelled, 1);
  served.scheduler.stop();
  EXPECT_LT(std::ranges::count(served.turns, 'a'), 5);
}

TEST(Scheduler, SequencesStartAfterTheComputationOfTheirJob) {
  Turns served;
  std::promise<void> done;
  Sequence sequence{.prompt = {5},
                    .vocabulary = Vocabulary::of(*served.model.tokenizer, served.model.model->vocab_size())};
  sequence.limit = 3;
  sequence.on_step = [&](const SequenceStep&) {
    served.note('s');
    done.set_value();
    return false;
  };
  Job job{.client = "a", .tokens = 4};
  job.sequences.push_back(std::move(sequence));
  job.on_start = [&] { served.note('o'); };
  job.run = [&, left = 3](int64_t) mutable {
    served.note('r');
    return Piece{.tokens = 1, .is_done = --left == 0};
  };
  served.scheduler.add(std::move(job));
  done.get_future().wait();
  served.scheduler.stop();
  EXPECT_EQ(served.turns, "orrrs");
}

/// A server with one model and few tokens in a part.
struct PartServer {
  explicit PartServer(ModelApiOptions api = {})
      : models({talking()}, small_parts(api)), server(nullptr, models, {.port = 0}) {
    server.start();
  }
  ~PartServer() {
    server.stop();
    models.stop();
  }
  static ModelApiOptions small_parts(ModelApiOptions api) {
    api.prompt_tokens = 8;
    api.draft_tokens = 0;
    return api;
  }
  static ServedModel talking() {
    ServedModel model = long_model();
    model.chat = std::make_shared<const ChatTemplate>("{% for m in messages %}{{ m.content }}{% endfor %}");
    return model;
  }
  ModelApi models;
  Server server;

  static std::string head(const std::string& path, const Json& body) {
    const std::string text = body.dump();
    return "POST " + path +
           " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + std::to_string(text.size()) +
           "\r\n\r\n" + text;
  }
  Json post(const std::string& path, const Json& body) const {
    const std::string answer = exchange(server.port(), head(path, body));
    Json result = Json::parse(body_of(answer));
    result["status"] = status_of(answer);
    return result;
  }
  int64_t metric(const std::string& name) const { return metric_of(server.port(), name); }
  bool becomes(const std::string& name, int64_t value) const { return metric_becomes(server.port(), name, value); }
};

const Json kStream{{"prompt", "a"}, {"max_tokens", 4000}, {"ignore_eos", true}, {"stream", true}, {"logprobs", 0}};

std::string long_text(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

TEST(Turns, TextsAreReadInPartsBetweenTheTokensOfAStream) {
  const PartServer served;
  const std::string text = long_text(1600);
  const Json embed_all{{"input", {text, "b", text}}};
  const Json score{{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 2}};
  const Json vectors = served.post("/v1/embeddings", embed_all);
  const Json scores = served.post("/v1/completions", score);
  ASSERT_EQ(vectors["status"], 200) << vectors;
  ASSERT_EQ(scores["status"], 200) << scores;
  const ServedModel model = long_model();
  const std::vector<std::string> texts{text, "b", text};
  const auto expected = embed(*model.model, *model.tokenizer, texts);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(vectors["data"][i]["embedding"].get<std::vector<float>>(), expected[i].vector);
  const Client stream(served.server.port());
  stream.send(PartServer::head("/v1/completions", kStream));
  EXPECT_TRUE(served.becomes("attend_running", 1));
  const int64_t before = served.metric("attend_generated_tokens_total");
  EXPECT_EQ(served.post("/v1/embeddings", embed_all)["data"], vectors["data"]);
  const int64_t between = served.metric("attend_generated_tokens_total");
  EXPECT_GE(between - before, 2 * 1600 / 8 - 2) << "the stream gets a token between two parts";
  EXPECT_EQ(served.post("/v1/completions", score)["choices"], scores["choices"]);
  EXPECT_GE(served.metric("attend_generated_tokens_total") - between, 1600 / 8 - 2);
}

TEST(Turns, AHangUpEndsTheReadingOfTexts) {
  const PartServer served;
  const std::vector<std::string> texts(200, long_text(1600));
  const Client stream(served.server.port());
  stream.send(PartServer::head("/v1/completions", kStream));
  EXPECT_TRUE(served.becomes("attend_running", 1));
  const std::vector<std::pair<const char*, Json>> requests{
      {"/v1/embeddings", {{"input", texts}}},
      {"/v1/completions", {{"prompt", std::vector(30, texts[0])}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}}}};
  for (const auto& [path, body] : requests) {
    {
      const Client client(served.server.port());
      client.send(PartServer::head(path, body));
      EXPECT_TRUE(served.becomes("attend_running", 2)) << path;
    }
    EXPECT_TRUE(served.becomes("attend_running", 1)) << path;
  }
  EXPECT_EQ(served.metric("attend_cancelled_total"), 2);
}

TEST(Room, ARequestThatNeverFitsIsRefused) {
  const PartServer served({.tokens_in_flight = 300});
  const auto error = [&](Json body) {
    body.emplace("prompt", "hello");
    const Json answer = served.post("/v1/completions", body);
    EXPECT_EQ(answer["status"], 400) << answer;
    return answer.contains("error") ? answer["error"] : answer;
  };
  const Json one = error({{"max_tokens", 480}});
  EXPECT_EQ(one["message"], "the request may have 485 tokens in all, but at most 300 may be in flight");
  EXPECT_EQ(one["param"], "max_tokens");
  EXPECT_EQ(one["code"], "request_too_large");
  EXPECT_EQ(error({{"max_tokens", 200}, {"n", 2}})["param"], "n");
  EXPECT_EQ(error({{"max_tokens", 200}, {"beam", 3}})["param"], "beam");
  EXPECT_EQ(error({{"max_tokens", 90}, {"prompt", std::vector<std::string>(5, "hello")}})["param"], "prompt");
  EXPECT_EQ(error({{"prompt", long_text(300)}})["param"], "prompt");
  const Json texts = served.post("/v1/embeddings", {{"input", long_text(301)}});
  EXPECT_EQ(texts["error"]["param"], "input") << texts;
  EXPECT_EQ(served.post("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 295}})["status"], 200);
  // Without max_tokens, the text gets as many tokens as fit.
  const Json chat = served.post("/v1/chat/completions",
                                {{"messages", {{{"role", "user"}, {"content", "hello"}}}}, {"ignore_eos", true}});
  EXPECT_EQ(chat["usage"]["total_tokens"], 300) << chat;
  EXPECT_EQ(served.post("/v1/completions", {{"prompt", long_text(290)}, {"ignore_eos", true}})["usage"]["total_tokens"],
            300);
}

TEST(Room, OtherRequestsWait) {
  const PartServer served({.tokens_in_flight = 4001});
  const Client stream(served.server.port());
  stream.send(PartServer::head("/v1/completions", kStream));
  EXPECT_TRUE(served.becomes("attend_running", 1));
  const Client waits(served.server.port());
  waits.send(PartServer::head("/v1/embeddings", {{"input", "hello"}}));
  EXPECT_TRUE(served.becomes("attend_waiting", 1));
  EXPECT_EQ(served.metric("attend_tokens_in_flight"), 4001);
}

TEST(Room, ATextFitsIntoTheMemoryOfKeysAndValues) {
  const ServedModel model = long_model();
  ModelMetrics metrics;
  const CacheSize all = Scheduler(model, {.cache_bytes = 1 << 30}, metrics).cache_size();
  const PartServer served({.cache_bytes = 16 * all.page_bytes});  // 256 tokens
  const auto error = [&](Json body) {
    body.emplace("prompt", "hello");
    const Json answer = served.post("/v1/completions", body);
    EXPECT_EQ(answer["status"], 400) << answer;
    return answer.contains("error") ? answer["error"] : answer;
  };
  const Json one = error({{"max_tokens", 295}});  // 19 pages
  EXPECT_EQ(one["message"], "a text of the request needs up to " + std::to_string(19 * all.page_bytes) +
                                " bytes for its keys and values, but the limit is " +
                                std::to_string(16 * all.page_bytes));
  EXPECT_EQ(one["param"], "max_tokens");
  EXPECT_EQ(error({{"max_tokens", 2000}, {"n", 3}})["param"], "max_tokens");
  EXPECT_EQ(error({{"max_tokens", 100}, {"beam", 4}})["param"], "beam");
  EXPECT_EQ(error({{"prompt", long_text(256)}})["param"], "prompt");
  EXPECT_EQ(served.post("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 251}, {"n", 3}})["status"], 200);
  const Json chat = served.post("/v1/chat/completions",
                                {{"messages", {{{"role", "user"}, {"content", "hello"}}}}, {"ignore_eos", true}});
  EXPECT_EQ(chat["usage"]["total_tokens"], 256) << chat;
  // A text whose keys and values do not fit is read as a whole.
  const Json vector = served.post("/v1/embeddings", {{"input", long_text(600)}});
  const std::vector<std::string> texts{long_text(600)};
  EXPECT_EQ(vector["data"][0]["embedding"].get<std::vector<float>>(),
            embed(*model.model, *model.tokenizer, texts)[0].vector);
}

}  // namespace
}  // namespace attend::testing
