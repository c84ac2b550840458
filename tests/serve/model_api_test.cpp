// Requests to models other than completions, and what all requests share: limits, keys, hang-ups, stopping.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "attend/generate/classify.h"
#include "attend/generate/embed.h"
#include "attend/generate/translate.h"
#include "serve/admission.h"
#include "serve/languages.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

TEST(ModelApi, ListsModels) {
  const ServedModels served;
  const Json list = Json::parse(body_of(served.request("GET /v1/models")));
  ASSERT_EQ(list["data"].size(), 3u);
  EXPECT_EQ(list["data"][0]["id"], "gpt");
  EXPECT_EQ(list["data"][0]["context_length"], 64);
  EXPECT_EQ(Json::parse(body_of(served.request("GET /v1/models/en-de")))["kind"], "translation");
  EXPECT_EQ(status_of(served.request("GET /v1/models/x")), 404);
  EXPECT_EQ(body_of(served.request("GET /health")), R"({"status":"ok"})");
}

TEST(ModelApi, Embeds) {
  const ServedModels served;
  const ServedModel model = tiny_served("labels", "encoder", {{"labels", R"(["good","bad"])"}});
  const std::vector<std::string> texts{"hello", "a longer text"};
  const auto expected = embed(*model.model, *model.tokenizer, texts);
  const Json floats = served.post("/v1/embeddings", {{"model", "labels"}, {"input", texts}});
  ASSERT_EQ(floats["data"].size(), 2u) << floats;
  EXPECT_EQ(floats["data"][1]["index"], 1);
  EXPECT_EQ(floats["data"][1]["embedding"].get<std::vector<float>>(), expected[1].vector);
  EXPECT_EQ(floats["usage"]["prompt_tokens"], expected[0].tokens + expected[1].tokens);
  const Json coded =
      served.post("/v1/embeddings", {{"model", "labels"}, {"input", "hello"}, {"encoding_format", "base64"}});
  EXPECT_EQ(coded["data"][0]["embedding"].get<std::string>().size(), (expected[0].vector.size() * 4 + 2) / 3 * 4);
  EXPECT_EQ(served.post("/v1/embeddings", {{"model", "labels"}, {"input", "x"}, {"dimensions", 3}})["error"]["param"],
            "dimensions");
  EXPECT_EQ(served.post("/v1/embeddings", {{"model", "labels"}})["error"]["message"], "'input' is missing");
  const Json longer = served.post("/v1/embeddings", {{"model", "labels"}, {"input", std::string(5000, 'a')}});
  EXPECT_EQ(longer["error"]["code"], "context_length_exceeded") << longer;
  const std::vector<std::string> many(100, "many");
  EXPECT_EQ(served.post("/v1/embeddings", {{"model", "gpt"}, {"input", many}})["data"].size(), 100u);
}

TEST(ModelApi, Classifies) {
  const ServedModels served;
  const ServedModel model = tiny_served("labels", "encoder", {{"labels", R"(["good","bad"])"}});
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model.model);
  const std::vector<std::string> texts{"hello", "a cat"};
  const auto expected = classify(encoder, *model.tokenizer, texts);
  const Json answer = served.post("/classify", {{"model", "labels"}, {"text", texts}});
  ASSERT_EQ(answer["results"].size(), 2u) << answer;
  EXPECT_EQ(answer["results"][0]["label"], expected[0].label == 0 ? "good" : "bad");
  EXPECT_EQ(answer["results"][0]["scores"]["bad"], expected[0].scores[1]);
  ModelApi comparing({tiny_served("pairs", "encoder", {{"types", "2"}})}, {});
  Server server(nullptr, comparing, {.port = 0});
  server.start();
  const std::string body = R"({"text":"a\tb","second":"c"})";
  const std::string pair =
      exchange(server.port(), "POST /classify HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                                  std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(Json::parse(body_of(pair))["results"].size(), 1u) << pair;
  server.stop();
  comparing.stop();
  EXPECT_EQ(served.post("/classify", {{"model", "gpt"}, {"text", "a"}})["error"]["message"],
            "'model' does not classify texts");
}

TEST(ModelApi, Tokenizes) {
  const ServedModels served;
  const Json tokens = served.post("/tokenize", {{"model", "gpt"}, {"text", "今天 ok"}});
  EXPECT_EQ(tokens["count"], 5) << tokens;
  EXPECT_EQ(tokens["pieces"], (Json{"今", "天", " ", "o", "k"}));
  const Json special = served.post("/tokenize", {{"model", "gpt"}, {"text", "a"}, {"add_special", true}});
  EXPECT_EQ(special["count"], 1) << "a prompt has no special tokens";
  EXPECT_EQ(served.post("/detokenize", {{"model", "gpt"}, {"tokens", tokens["tokens"]}})["text"], "今天 ok");
  EXPECT_EQ(served.post("/detokenize", {{"model", "gpt"}, {"tokens", {-1}}})["status"], 400);
}

TEST(ModelApi, TranslatesAsLibreTranslateDoes) {
  const ServedModels served;
  const ServedModel model = tiny_served("en-de", "transformer");
  const auto& pair = dynamic_cast<const PairModel&>(*model.model);
  const std::vector<std::string> lines{"hello", "a cat"};
  const auto expected = translate(pair, *model.tokenizer, lines, {.beam = 3, .n_best = 3});
  const Json one = served.post("/translate", {{"q", "hello\n\na cat"}, {"source", "en"}, {"target", "de"}});
  const auto greedy = translate(pair, *model.tokenizer, lines);
  EXPECT_EQ(one["translatedText"], greedy[0].best[0].text + "\n\n" + greedy[1].best[0].text) << one;
  EXPECT_FALSE(one.contains("alternatives"));
  const Json many =
      served.post("/translate", {{"q", lines}, {"source", "auto"}, {"target", "de"}, {"alternatives", 2}});
  EXPECT_EQ(many["translatedText"], (Json{expected[0].best[0].text, expected[1].best[0].text})) << many;
  EXPECT_EQ(many["alternatives"][1], (Json{expected[1].best[1].text, expected[1].best[2].text}));
  EXPECT_EQ(many["detectedLanguage"][0]["language"], "en");
  const std::string form = served.request("POST /translate", "q=a+cat&source=en&target=de&alternatives=1",
                                          "Content-Type: application/x-www-form-urlencoded\r\n");
  EXPECT_EQ(Json::parse(body_of(form))["alternatives"].size(), 1u) << form;
  EXPECT_EQ(served.post("/translate", {{"q", ""}, {"source", "en"}, {"target", "de"}})["translatedText"], "");
  EXPECT_EQ(served.post("/translate", {{"q", "a"}, {"source", "fr"}, {"target", "de"}})["status"], 400);
  EXPECT_EQ(Json::parse(body_of(served.request("GET /languages"))),
            (Json::parse(R"([{"code":"en","name":"English","targets":["de"]}])")));
}

TEST(ModelApi, ReadsLanguagesInNames) {
  EXPECT_EQ(languages_of("opus-mt-en-zh")->source, "en");
  EXPECT_EQ(languages_of("opus-mt-en-zh")->target, "zh");
  EXPECT_FALSE(languages_of("marian"));
  EXPECT_FALSE(languages_of("my-model"));
  EXPECT_FALSE(languages_of("-de"));
}

TEST(ModelApi, MetricsCountRequestsAndTokens) {
  const ServedModels served;
  served.complete({{"max_tokens", 4}, {"ignore_eos", true}});
  served.complete({{"nothing", 4}});
  // An answer is sent before its step ends, and the gauges follow the step.
  std::string text = body_of(served.request("GET /metrics"));
  for (int i = 0; i < 500 && text.find("attend_running{model=\"gpt\"} 0\n") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    text = body_of(served.request("GET /metrics"));
  }
  const auto has = [&](const std::string& line) { EXPECT_NE(text.find(line + "\n"), std::string::npos) << line; };
  has(R"(attend_requests_total{path="/v1/completions",status="200"} 1)");
  has(R"(attend_requests_total{path="/v1/completions",status="400"} 1)");
  has(R"(attend_generated_tokens_total{model="gpt"} 4)");
  has(R"(attend_prompt_tokens_total{model="gpt"} 5)");
  has(R"(attend_first_token_seconds_count{model="gpt"} 1)");
  has(R"(attend_between_tokens_seconds_count{model="gpt"} 3)");
  has(R"(attend_first_token_seconds_bucket{model="gpt",le="+Inf"} 1)");
  has(R"(attend_running{model="gpt"} 0)");
  EXPECT_NE(text.find(R"(attend_drafted_tokens_total{model="gpt"} )"), std::string::npos);
  EXPECT_NE(text.find(R"(attend_accepted_tokens_total{model="gpt"} )"), std::string::npos);
}

/// A model whose answers may take long.
ServedModel slow_model() { return tiny_served("gpt", "gpt", {{"context", "4096"}, {"positions", "rotary"}}); }

struct SlowServer {
  explicit SlowServer(const ModelApiOptions& api = {})
      : models({slow_model()}, without_drafts(api)), server(nullptr, models, {.port = 0}) {
    server.start();
  }
  static ModelApiOptions without_drafts(ModelApiOptions api) {
    api.draft_tokens = 0;
    return api;
  }
  ~SlowServer() {
    server.stop();
    models.stop();
  }
  ModelApi models;
  Server server;

  std::string head(const std::string& body) const {
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  int64_t metric(const std::string& name) const { return metric_of(server.port(), name); }
  bool becomes(const std::string& name, int64_t value) const { return metric_becomes(server.port(), name, value); }
};

constexpr const char* kEndless = R"({"prompt":"a","max_tokens":4000,"ignore_eos":true,"stream":true})";
constexpr const char* kEndlessWhole = R"({"prompt":"a","max_tokens":4000,"ignore_eos":true})";

TEST(ModelApi, AHangUpFreesItsPlace) {
  const SlowServer served({.tokens_in_flight = 1'000'000});
  for (const char* body : {kEndless, kEndlessWhole}) {
    {
      std::vector<std::unique_ptr<Client>> clients;
      for (int i = 0; i < 5; ++i) {
        clients.push_back(std::make_unique<Client>(served.server.port()));
        clients.back()->send(served.head(body));
      }
      EXPECT_TRUE(served.becomes("attend_running", 5));
    }
    EXPECT_TRUE(served.becomes("attend_running", 0)) << body;
    EXPECT_EQ(served.metric("attend_tokens_in_flight"), 0);
  }
  EXPECT_EQ(served.metric("attend_cancelled_total"), 10);
}

TEST(ModelApi, AFullQueueIsRefused) {
  const SlowServer served({.tokens_in_flight = 4001, .most_waiting = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(served.server.port()));
    clients.back()->send(served.head(kEndless));
    EXPECT_TRUE(served.becomes("attend_running", 1));
    EXPECT_TRUE(served.becomes("attend_waiting", i));
  }
  const std::string refused = exchange(served.server.port(), served.head(kEndless));
  EXPECT_EQ(status_of(refused), 429);
  EXPECT_NE(refused.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(Json::parse(body_of(refused))["error"]["code"], "queue_full");
  clients.erase(clients.begin());  // the next one starts
  EXPECT_TRUE(served.becomes("attend_waiting", 1));
  EXPECT_TRUE(served.becomes("attend_running", 1));
}

TEST(ModelApi, ARequestThatIsTooLargeIsRefused) {
  const ServedModels served({.tokens_in_flight = 100});
  const std::vector<std::string> many(10, "hello");
  EXPECT_EQ(served.error({{"prompt", many}, {"max_tokens", 10}}),
            "the request may have 150 tokens in all, but at most 100 may be in flight");
  EXPECT_EQ(served.error({{"n", 20}, {"max_tokens", 10}}),
            "the request may have 300 tokens in all, but at most 100 may be in flight");
  EXPECT_EQ(served.complete({{"max_tokens", 59}})["status"], 200);
}

/// One client with many requests does not keep another one waiting.
TEST(ModelApi, ClientsTakeTurns) {
  const SlowServer served({.tokens_in_flight = 301});
  const auto body = [](const char* user, int tokens) {
    return Json{{"prompt", "a"}, {"max_tokens", tokens}, {"ignore_eos", true}, {"user", user}}.dump();
  };
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 20; ++i) {
    busy.push_back(std::make_unique<Client>(served.server.port()));
    busy.back()->send(served.head(body("busy", 300)));
    EXPECT_TRUE(served.becomes("attend_running", 1));
  }
  EXPECT_EQ(status_of(exchange(served.server.port(), served.head(body("other", 1)))), 200);
  EXPECT_FALSE(busy.back()->has_answer());
}

TEST(ModelApi, StopsAfterRunningRequests) {
  SlowServer served;
  const Client client(served.server.port());
  client.send(served.head(R"({"prompt":"a","max_tokens":500,"ignore_eos":true})"));
  EXPECT_TRUE(served.becomes("attend_running", 1));
  const Client kept(served.server.port());  // connected before
  std::thread drain([&] { EXPECT_TRUE(served.server.drain(std::chrono::seconds(60))); });
  std::string refused;
  for (int i = 0; i < 100 && status_of(refused) != 503; ++i) {
    refused = exchange(served.server.port(), served.head(kEndless));
  }
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_EQ(Json::parse(body_of(refused))["error"]["message"], "the server is stopping");
  EXPECT_EQ(status_of(client.receive()), 200);
  drain.join();
}

TEST(ModelApi, StoppingEndsRequestsThatTakeTooLong) {
  SlowServer served({.tokens_in_flight = 100'000});
  const Client runs(served.server.port()), waits(served.server.port());
  runs.send(served.head(kEndless));
  EXPECT_TRUE(served.becomes("attend_running", 1));
  waits.send(served.head(kEndlessWhole));
  EXPECT_FALSE(served.server.drain(milliseconds(50)));
  served.models.stop();
  const std::string answer = runs.receive();
  EXPECT_NE(answer.find("the server is stopping"), std::string::npos);
}

TEST(ModelApi, ManyStreamsAtOnce) {
  const SlowServer served({.tokens_in_flight = 10'000'000, .most_waiting = 2000});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<Client>(served.server.port()));
    clients.back()->send(served.head(R"({"prompt":"a","max_tokens":5,"seed":)" + std::to_string(i) +
                                     R"(,"ignore_eos":true,"stream":true})"));
  }
  for (const auto& client : clients) EXPECT_EQ(events_of(client->receive()).size(), 5u);
}

TEST(ModelApi, KeysAreRequired) {
  const ServedModels served({}, {.api_keys = {"secret-1", "secret-2"}});
  const auto status = [&](const std::string& line, const std::string& headers) {
    return status_of(served.request(line, {}, headers));
  };
  EXPECT_EQ(status("GET /v1/models", ""), 401);
  EXPECT_EQ(status("GET /v1/models", "Authorization: Bearer secret-3\r\n"), 401);
  EXPECT_EQ(status("GET /v1/models", "Authorization: Bearer secret-22\r\n"), 401);
  EXPECT_EQ(status("GET /v1/models", "Authorization: Bearer \r\n"), 401);
  EXPECT_EQ(status("GET /v1/models", "Authorization: Bearer secret-2\r\n"), 200);
  EXPECT_EQ(status("GET /v1/models", "Authorization: Bearer secret-1\r\nHost: api.example.org\r\n"), 200);
  EXPECT_EQ(status("GET /health", ""), 200);
  EXPECT_EQ(Json::parse(body_of(served.request("GET /metrics")))["error"]["type"], "authentication_error");
  EXPECT_TRUE(is_same_secret("abc", "abc"));
  EXPECT_FALSE(is_same_secret("abcabc", "abc"));
  EXPECT_FALSE(is_same_secret("", ""));
}

TEST(ModelApi, OtherOriginsAreRefusedUnlessAllowed) {
  const ServedModels closed;
  const ServedModels open({}, {.cors_origins = {"https://app.example"}});
  const std::string origin = "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n";
  EXPECT_EQ(status_of(closed.request("GET /v1/models", {}, origin)), 403);
  EXPECT_EQ(status_of(closed.request("GET /v1/models", {}, "Sec-Fetch-Site: cross-site\r\n")), 403);
  EXPECT_EQ(status_of(closed.request("GET /v1/models", {}, "Sec-Fetch-Site: same-origin\r\n")), 200);
  EXPECT_EQ(status_of(closed.request("GET /v1/models", {}, "Host: evil.example\r\n")), 403);
  const std::string allowed = open.request("GET /v1/models", {}, origin);
  EXPECT_EQ(status_of(allowed), 200);
  EXPECT_NE(allowed.find("Access-Control-Allow-Origin: https://app.example"), std::string::npos);
  EXPECT_EQ(status_of(open.request("GET /v1/models", {}, "Origin: https://evil.example\r\n")), 403);
  const std::string preflight =
      open.request("OPTIONS /v1/completions", {},
                   origin + "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_NE(preflight.find("Access-Control-Allow-Headers: authorization"), std::string::npos);
}

}  // namespace
}  // namespace attend::testing
