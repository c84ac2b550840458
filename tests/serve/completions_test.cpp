// Every field of /v1/completions changes the answer as it says, or is refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "attend/generate/generate_text.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

/// The text that the library itself generates.
std::string generated(const GenerateOptions& options, const std::string& prompt = "hello") {
  static const ServedModel model = tiny_served("gpt", "gpt", {{"context", "64"}});
  return generate_text(dynamic_cast<const LanguageModel&>(*model.model), *model.tokenizer, prompt, options);
}

TEST(Completions, WritesWhatTheLibraryWrites) {
  const ServedModels served;
  const Json answer = served.complete({{"temperature", 0}, {"max_tokens", 12}});
  EXPECT_EQ(answer["status"], 200);
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "gpt");
  EXPECT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["text"], generated({.tokens = 12, .sampling = {.temperature = 0}}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"], (Json{{"prompt_tokens", 5}, {"completion_tokens", 12}, {"total_tokens", 17}}));
  EXPECT_EQ(served.text({{"seed", 7}, {"max_tokens", 20}}), generated({.tokens = 20, .sampling = {.seed = 7}}));
  EXPECT_EQ(served.complete({{"seed", 7}})["usage"]["completion_tokens"], 16) << "OpenAI's default";
}

TEST(Completions, DraftsChangeNoAnswer) {
  ModelApiOptions api;
  api.draft_tokens = 0;
  const ServedModels plain(api), drafting;
  for (const Json& fields :
       {Json{{"temperature", 0}, {"logprobs", 3}}, Json{{"temperature", 20}, {"n", 3}, {"seed", 5}, {"logprobs", 2}},
        Json{{"temperature", 0}, {"frequency_penalty", 0.5}, {"prompt", "abcabcabcabcabcab"}},
        Json{{"temperature", 0}, {"response_format", {{"type", "json_object"}}}, {"ignore_eos", false}}}) {
    Json body{{"max_tokens", 40}, {"ignore_eos", true}};
    body.update(fields);
    const Json expected = plain.complete(body), got = drafting.complete(body);
    EXPECT_EQ(expected["status"], 200) << expected;
    EXPECT_EQ(expected["choices"], got["choices"]);
    EXPECT_EQ(expected["usage"], got["usage"]);
  }
}

TEST(Completions, FieldsOfSampling) {
  const ServedModels served;
  // The model is sure of itself, so most texts are drawn at a high temperature.
  const Json usual{{"seed", 3}, {"max_tokens", 24}, {"temperature", 30}};
  const auto expect_same = [&](Json fields, SamplingOptions sampling) {
    for (const auto& [name, value] : usual.items()) fields.emplace(name, value);
    if (sampling.temperature == 1) sampling.temperature = 30;
    sampling.seed = 3;
    EXPECT_EQ(served.text(fields), generated({.tokens = 24, .sampling = sampling})) << fields;
    EXPECT_NE(served.text(fields), served.text(usual)) << fields << " has no effect";
  };
  expect_same({{"temperature", 0.4}}, {.temperature = 0.4});
  expect_same({{"top_p", 0.5}}, {.top_p = 0.5});
  expect_same({{"top_k", 2}}, {.top_k = 2});
  expect_same({{"min_p", 0.9}}, {.min_p = 0.9});
  expect_same({{"repetition_penalty", 3}}, {.repetition_penalty = 3});
  expect_same({{"frequency_penalty", 2}, {"top_k", 3}}, {.top_k = 3, .frequency_penalty = 2});
  expect_same({{"presence_penalty", 2}, {"top_k", 3}}, {.top_k = 3, .presence_penalty = 2});
  expect_same({{"logit_bias", {{"20", 90}}}}, {.logit_bias = {{20, 90.0f}}});
  EXPECT_NE(served.text({{"seed", 3}, {"temperature", 30}}), served.text({{"seed", 4}, {"temperature", 30}}));
  std::set<std::string> texts;
  for (int i = 0; i < 4; ++i) texts.insert(served.text({{"temperature", 30}}));
  EXPECT_GT(texts.size(), 1u) << "without a seed, texts differ";
}

TEST(Completions, SeveralPromptsAndTexts) {
  const ServedModels served;
  const Json answer =
      served.complete({{"prompt", {"a", "bc"}}, {"n", 2}, {"seed", 1}, {"max_tokens", 8}, {"temperature", 90}});
  ASSERT_EQ(answer["choices"].size(), 4u);
  std::set<std::string> texts;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    texts.insert(answer["choices"][i]["text"]);
  }
  EXPECT_EQ(texts.size(), 4u);
  EXPECT_EQ(answer["choices"][2]["text"],
            generated({.tokens = 8, .sampling = {.temperature = 90, .seed = 1}, .first_index = 1}, "bc"));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 32);
  const Json ids = served.post("/tokenize", {{"model", "gpt"}, {"text", "bc"}})["tokens"];
  EXPECT_EQ(served.text({{"prompt", ids}, {"temperature", 0}}), served.text({{"prompt", "bc"}, {"temperature", 0}}));
  EXPECT_EQ(served.complete({{"prompt", {ids, ids}}, {"temperature", 0}})["choices"].size(), 2u);
}

TEST(Completions, StopStrings) {
  const ServedModels served;
  const std::string whole = served.text({{"temperature", 0}, {"max_tokens", 30}});
  const std::string stop = whole.substr(5, 2);
  const Json answer = served.complete({{"temperature", 0}, {"max_tokens", 30}, {"stop", stop}});
  EXPECT_EQ(answer["choices"][0]["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(served.text({{"temperature", 0}, {"max_tokens", 30}, {"stop", {"never", stop}}}),
            answer["choices"][0]["text"]);
}

TEST(Completions, EchoAndLogProbabilities) {
  const ServedModels served;
  const Json plain = served.complete({{"temperature", 0}, {"max_tokens", 3}, {"logprobs", 2}});
  const Json& own = plain["choices"][0]["logprobs"];
  ASSERT_EQ(own["tokens"].size(), 3u);
  std::string text;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(own["text_offset"][i], i);
    EXPECT_EQ(own["top_logprobs"][i].size(), 2u);
    EXPECT_EQ(own["top_logprobs"][i][own["tokens"][i].get<std::string>()], own["token_logprobs"][i]) << "greedy";
    text += own["tokens"][i];
  }
  EXPECT_EQ(text, plain["choices"][0]["text"]);
  // The prompt of the echo is what the first request wrote, so that its log-probabilities are the same.
  const Json echo = served.complete(
      {{"prompt", "hello" + text}, {"temperature", 0}, {"max_tokens", 0}, {"logprobs", 2}, {"echo", true}});
  EXPECT_EQ(echo["choices"][0]["text"], "hello" + text);
  EXPECT_EQ(echo["usage"]["completion_tokens"], 0);
  const Json& read = echo["choices"][0]["logprobs"];
  ASSERT_EQ(read["tokens"].size(), 8u);
  EXPECT_TRUE(read["token_logprobs"][0].is_null());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(read["token_logprobs"][5 + i].get<double>(), own["token_logprobs"][i].get<double>(), 1e-4);
  }
  const Json longer = served.complete({{"temperature", 0}, {"max_tokens", 3}, {"echo", true}});
  EXPECT_EQ(longer["choices"][0]["text"], "hello" + text);
  EXPECT_TRUE(longer["choices"][0]["logprobs"].is_null());
}

TEST(Completions, Streams) {
  const ServedModels served;
  const Json body{{"model", "gpt"},   {"prompt", "hello"}, {"seed", 5},     {"n", 2},
                  {"max_tokens", 10}, {"stream", true},    {"logprobs", 0}, {"top_k", 50}};
  const std::string answer = served.request("POST /v1/completions", body.dump());
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_NE(answer.find("Content-Type: text/event-stream"), std::string::npos);
  std::map<int, std::string> texts, reasons;
  std::map<int, size_t> tokens;
  for (const Json& event : events_of(answer)) {
    EXPECT_FALSE(event.contains("usage"));
    ASSERT_EQ(event["choices"].size(), 1u);
    const Json& choice = event["choices"][0];
    texts[choice["index"]] += choice["text"];
    tokens[choice["index"]] += choice["logprobs"]["tokens"].size();
    if (!choice["finish_reason"].is_null()) reasons[choice["index"]] = choice["finish_reason"];
  }
  Json whole = body;
  whole["stream"] = false;
  const Json expected = served.complete(whole);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], expected["choices"][i]["text"]);
    EXPECT_EQ(reasons[i], expected["choices"][i]["finish_reason"]);
    EXPECT_EQ(tokens[i], 10u);
  }
  Json counted = body;
  counted["stream_options"] = {{"include_usage", true}};
  const auto events = events_of(served.request("POST /v1/completions", counted.dump()));
  EXPECT_TRUE(events[0]["usage"].is_null());
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["total_tokens"], 25);
}

TEST(Completions, Beams) {
  const ServedModels served;
  EXPECT_EQ(served.text({{"beam", 3}, {"max_tokens", 10}}), generated({.tokens = 10, .beam = 3}));
  const Json two = served.complete({{"beam", 3}, {"n", 2}, {"max_tokens", 10}});
  EXPECT_EQ(two["choices"].size(), 2u);
  EXPECT_NE(two["choices"][0]["text"], two["choices"][1]["text"]);
  EXPECT_EQ(served.error({{"beam", 2}, {"n", 3}}), "'n' must be at most 'beam', got 3");
  EXPECT_EQ(served.error({{"beam", 2}, {"temperature", 1}}), "'beam' cannot be combined with 'temperature'");
  EXPECT_EQ(served.error({{"beam", 2}, {"seed", 1}}), "'beam' cannot be combined with 'seed'");
  EXPECT_EQ(served.error({{"beam", 2}, {"logit_bias", {{"20", 1}}}}), "'beam' cannot be combined with 'logit_bias'");
  const Json pair = served.post("/v1/completions", {{"model", "en-de"}, {"prompt", "hello"}, {"beam", 2}});
  EXPECT_EQ(pair["status"], 200) << pair;
  EXPECT_EQ(pair["usage"]["prompt_tokens"], 6) << "the end token is read, too";
}

/// A translation that is cut at max_tokens has no end token of its own.
TEST(Completions, CountsTheTokensThatATranslationHas) {
  const ServedModels served;
  const auto counted = [&](const Json& fields) {
    Json body{{"model", "en-de"}, {"prompt", "hello"}, {"max_tokens", 3}};
    body.update(fields);
    const Json answer = served.post("/v1/completions", body);
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length") << answer;
    return answer["usage"]["completion_tokens"].get<int>();
  };
  EXPECT_EQ(counted({{"temperature", 0}}), 3);
  EXPECT_EQ(counted({{"beam", 1}}), 3);
  EXPECT_EQ(counted({{"beam", 4}}), 3);
  EXPECT_EQ(counted({{"temperature", 0}, {"ignore_eos", true}}), 3);
  // 3 tokens for each of the source's 6, and 10.
  EXPECT_EQ(counted({{"temperature", 0}, {"max_tokens", nullptr}, {"ignore_eos", true}}), 28);
}

TEST(Completions, WholeNumbersMayHaveAPoint) {
  const ServedModels served;
  const Json body = Json::parse(R"({"max_tokens": 3.0, "seed": 7.0, "attend": {"layers": [1.0]}})");
  const Json answer = served.complete(body);
  ASSERT_EQ(answer["status"], 200) << answer;
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  EXPECT_EQ(answer["choices"][0]["text"], served.text({{"max_tokens", 3}, {"seed", 7}}));
  EXPECT_EQ(served.complete({{"seed", INT64_MAX}, {"max_tokens", 1}})["status"], 200);
  EXPECT_EQ(served.error({{"seed", UINT64_MAX}}), "'seed' must be a whole number");
  EXPECT_EQ(served.error({{"max_tokens", 1e300}}), "'max_tokens' must be a whole number");
  EXPECT_EQ(served.error({{"max_tokens", -1.0}}), "'max_tokens' must be from 0 to 16777216, got -1");
}

TEST(Completions, LooksOnlyIntoWhatTheModelHas) {
  const ServedModels served;  // four layers of two heads
  EXPECT_EQ(served.error({{"attend", {{"layers", 4}}}}), "'attend.layers' must be from 0 to 3, got 4");
  EXPECT_EQ(served.error({{"attend", {{"heads", {0, 5}}}}}), "'attend.heads' must be from 0 to 1, got 5");
  EXPECT_EQ(served.complete({{"attend", {{"layers", 9}}}})["error"]["param"], "attend.layers");
  const Json pair = served.post("/v1/completions", {{"model", "en-de"}, {"prompt", "a"}, {"attend", {{"layers", 99}}}});
  EXPECT_EQ(pair["status"], 400) << pair;
  EXPECT_EQ(pair["error"]["param"], "attend.layers");
}

/// The weights are those of the page's API for the same text.
TEST(Completions, LooksInside) {
  const ServedModels served;
  const Json answer =
      served.complete({{"temperature", 0}, {"max_tokens", 2}, {"attend", {{"layers", {1}}, {"heads", 0}, {"top", 3}}}});
  ASSERT_EQ(answer["status"], 200) << answer;
  const Json& looks = answer["choices"][0]["attend"];
  ASSERT_EQ(looks.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(looks[i]["looked"].size(), 1u) << looks;
    const Json& one = looks[i]["looked"][0];
    EXPECT_EQ(one["layer"], 1);
    EXPECT_EQ(one["head"], 0);
    ASSERT_EQ(one["weights"].size(), 3u);
    EXPECT_GE(one["weights"][0], one["weights"][1]);
  }
  const InspectedModel model = tiny_inspected("gpt", {{"context", "64"}});
  const auto run = tiny_run(model, {.text = "hello"});
  const AttentionTrace& trace = run.attention[1].trace;
  const auto weights = trace.weights({.heads = {0}, .rows = {4}, .top = 3});
  const auto values = weights.values.to_vector<float>();
  const auto places = weights.places.to_vector<int64_t>();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(looks[0]["looked"][0]["weights"][i].get<double>(), values[i], 1e-6);
    EXPECT_EQ(looks[0]["looked"][0]["positions"][i], places[i]);
  }
  const Json all = served.complete({{"temperature", 0}, {"max_tokens", 1}, {"attend", Json::object()}});
  EXPECT_EQ(all["choices"][0]["attend"][0]["looked"].size(), 8u) << "four layers of two heads";
  EXPECT_EQ(served.error({{"attend", {{"layer", 1}}}}), "'attend.layer' is not supported");
}

TEST(Completions, ErrorsNameTheField) {
  const ServedModels served;
  const auto param = [&](const Json& body) { return served.complete(body)["error"]["param"]; };
  EXPECT_EQ(served.error({{"suffix", "x"}}), "'suffix' is not supported");
  EXPECT_EQ(served.error({{"tools", Json::array()}}), "'tools' is not supported");
  EXPECT_EQ(served.error({{"prompt", std::string(80, 'a')}}),
            "the prompt has 80 tokens, but the model's context is 64 tokens");
  EXPECT_EQ(served.error({{"model", "nothing"}}, 404), "there is no model 'nothing'");
  EXPECT_EQ(served.error({{"temperature", "hot"}}), "'temperature' must be a number");
  EXPECT_EQ(served.error({{"temperature", -1}}), "'temperature' must be from 0 to 100, got -1");
  EXPECT_EQ(served.error({{"top_p", 1.5}}), "'top_p' must be from 0 to 1, got 1.5");
  EXPECT_EQ(served.error({{"n", 0}}), "'n' must be from 1 to 128, got 0");
  EXPECT_EQ(served.error({{"n", 1.5}}), "'n' must be a whole number");
  EXPECT_EQ(served.error({{"stop", Json::array({1})}}), "'stop' must be a string or an array of strings");
  EXPECT_EQ(served.error({{"stream_options", {{"include_usage", true}}}}), "'stream_options' requires 'stream': true");
  EXPECT_EQ(served.error({{"prompt", 5}}),
            "'prompt' must be a string, an array of token ids, or an array of 1 to 256 of these");
  EXPECT_EQ(served.error({{"prompt", {1, 100000}}}).substr(0, 34), "'prompt' must have token ids from ");
  EXPECT_EQ(served.error({{"logit_bias", {{"x", 1}}}}).substr(0, 55),
            "'logit_bias' has a key that is not a token id from 0 to");
  EXPECT_EQ(served.error({{"model", "labels"}}), "'model' does not generate text");
  EXPECT_EQ(param({{"frequency_penalty", 3}}), "frequency_penalty");
  EXPECT_EQ(param({{"logprobs", 21}}), "logprobs");
  EXPECT_EQ(param({{"seed", "x"}}), "seed");
  const Json missing = served.post("/v1/completions", {{"model", "gpt"}});
  EXPECT_EQ(missing["error"]["message"], "'prompt' is missing");
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const std::string& body : {std::string("{"), std::string("[]"), std::string(), deep}) {
    const std::string answer = served.request("POST /v1/completions", body);
    EXPECT_EQ(status_of(answer), 400) << body;
    EXPECT_EQ(Json::parse(body_of(answer))["error"]["type"], "invalid_request_error");
  }
  EXPECT_EQ(status_of(served.request("GET /v1/completions")), 405);
  EXPECT_EQ(status_of(served.request("POST /v1/nothing", "{}")), 404);
}

TEST(Completions, EndsAtTheContextAndIgnoresEnds) {
  const ServedModels served;
  const Json answer = served.complete({{"max_tokens", 1000}, {"ignore_eos", true}, {"seed", 1}});
  EXPECT_EQ(answer["usage"]["completion_tokens"], 59);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  // With a large bias, the end token comes first.
  const int end = tiny_inspected("gpt").tokenizer->special().end;
  const Json ends = served.complete({{"logit_bias", {{std::to_string(end), 100}}}});
  EXPECT_EQ(ends["choices"][0]["text"], "");
  EXPECT_EQ(ends["choices"][0]["finish_reason"], "stop");
  const Json ignores = served.complete({{"logit_bias", {{std::to_string(end), 100}}}, {"ignore_eos", true}});
  EXPECT_EQ(ignores["usage"]["completion_tokens"], 16);
}

}  // namespace
}  // namespace attend::testing
