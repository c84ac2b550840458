// Token ids in requests and answers, so that another request can read exactly what a model read or wrote.
#include <gtest/gtest.h>

#include "attend/chat/chat_template.h"
#include "attend/generate/embed.h"
#include "attend/serve/api.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

TEST(TokenIds, OfPromptAndText) {
  const ServedModels served;
  const Json body{{"temperature", 0}, {"max_tokens", 6}, {"return_token_ids", true}};
  const Json choice = served.complete(body)["choices"][0];
  const Json prompt = served.post("/tokenize", {{"model", "gpt"}, {"text", "hello"}})["tokens"];
  EXPECT_EQ(choice["prompt_token_ids"], prompt);
  ASSERT_EQ(choice["token_ids"].size(), 6u) << choice;
  EXPECT_EQ(served.post("/detokenize", {{"model", "gpt"}, {"tokens", choice["token_ids"]}})["text"], choice["text"]);
  EXPECT_FALSE(served.complete({{"temperature", 0}})["choices"][0].contains("token_ids"));
  EXPECT_EQ(served.error({{"return_token_ids", 1}}), "'return_token_ids' must be true or false");
  Json streamed = body;
  streamed.update({{"model", "gpt"}, {"prompt", "hello"}, {"stream", true}});
  Json ids = Json::array();
  int prompts = 0;
  for (const Json& event : events_of(served.request("POST /v1/completions", streamed.dump()))) {
    for (const Json& id : event["choices"][0]["token_ids"]) ids.push_back(id);
    prompts += event["choices"][0].contains("prompt_token_ids");
  }
  EXPECT_EQ(ids, choice["token_ids"]);
  EXPECT_EQ(prompts, 1) << "only in the first event";
  // A language model continues the ids as it continues the text.
  EXPECT_EQ(served.text({{"prompt", choice["prompt_token_ids"]}, {"temperature", 0}, {"max_tokens", 6}}),
            choice["text"]);
}

TEST(TokenIds, OfTranslations) {
  const ServedModels served;
  for (const int beam : {1, 3}) {
    const Json answer = served.post(
        "/v1/completions",
        {{"model", "en-de"}, {"prompt", "hello"}, {"beam", beam}, {"max_tokens", 7}, {"return_token_ids", true}});
    const Json& choice = answer["choices"][0];
    EXPECT_EQ(choice["prompt_token_ids"].size(), 6u) << "the source with its end token";
    EXPECT_EQ(served.post("/detokenize", {{"model", "en-de"}, {"tokens", choice["token_ids"]}})["text"], choice["text"])
        << answer;
  }
}

/// `add_special` gives what the model reads.
TEST(TokenIds, OfATextWithSpecialTokens) {
  const ServedModels served;
  for (const std::string model : {"gpt", "en-de"}) {
    for (const std::string text : {"hello", ""}) {
      const Json ids = served.post("/tokenize", {{"model", model}, {"text", text}, {"add_special", true}})["tokens"];
      const Json answer = served.post(
          "/v1/completions", {{"model", model}, {"prompt", text}, {"max_tokens", 1}, {"return_token_ids", true}});
      EXPECT_EQ(answer["choices"][0]["prompt_token_ids"], ids) << model << answer;
    }
  }
  const InspectedModel encoder = tiny_inspected("encoder");
  EXPECT_EQ(served.post("/tokenize", {{"model", "labels"}, {"text", "a"}, {"add_special", true}})["tokens"],
            Json(encoder.tokenizer->encode("a", true)));
}

TEST(TokenIds, PiecesOfTokens) {
  const ServedModels served;
  const Json tokens = served.post("/tokenize", {{"model", "gpt"}, {"text", "今 ok"}});
  const Json back = served.post("/detokenize", {{"model", "gpt"}, {"tokens", tokens["tokens"]}});
  EXPECT_EQ(back["pieces"], tokens["pieces"]);
  EXPECT_EQ(back["pieces"], (Json{"今", " ", "o", "k"}));
}

TEST(TokenIds, Embeddings) {
  const ServedModels served;
  const auto embedded = [&](const std::string& model, const Json& input) {
    return served.post("/v1/embeddings", {{"model", model}, {"input", input}});
  };
  const auto ids = [&](const std::string& model, const std::string& text) {
    return served.post("/tokenize", {{"model", model}, {"text", text}, {"add_special", true}})["tokens"];
  };
  for (const std::string model : {"en-de", "labels"}) {
    const Json texts = embedded(model, {"hello", "a longer text"});
    ASSERT_EQ(texts["data"].size(), 2u) << texts;
    const Json one = embedded(model, ids(model, "hello")),
               both = embedded(model, {ids(model, "hello"), ids(model, "a longer text")});
    EXPECT_EQ(one["data"][0]["embedding"], texts["data"][0]["embedding"]) << one;
    EXPECT_EQ(both["data"], texts["data"]) << "the same bits as the text";
    EXPECT_EQ(both["usage"], texts["usage"]);
  }
  // A language model embeds a text with its end token.
  Json whole = ids("gpt", "hello");
  whole.insert(whole.begin(), 2);
  whole.push_back(3);
  EXPECT_EQ(embedded("gpt", whole)["data"][0]["embedding"], embedded("gpt", "hello")["data"][0]["embedding"]);
  const std::string expected =
      "'input' must be a string, an array of strings, an array of token ids, or an array of such arrays";
  EXPECT_EQ(embedded("gpt", Json::array())["error"]["message"], expected);
  EXPECT_EQ(embedded("gpt", {"a", {1}})["error"]["message"], expected);
  EXPECT_EQ(embedded("gpt", 5)["error"]["message"], expected);
  EXPECT_EQ(embedded("gpt", {{1}, Json::array()})["error"]["message"], "'input' has an empty array");
  EXPECT_EQ(embedded("gpt", {1, -1})["error"]["message"].get<std::string>().substr(0, 33),
            "'input' must have token ids from ");
  const std::vector<int> many(70, 5);
  EXPECT_EQ(embedded("gpt", many)["error"]["message"], "a text has 70 tokens, but the model reads at most 64 tokens");
}

TEST(TokenIds, TheLibraryRefusesOthers) {
  const InspectedModel model = tiny_inspected("gpt");
  const std::vector<std::vector<int32_t>> wrong{{1, 100000}};
  try {
    embed_ids(*model.model, wrong);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 36), "embed: expected token ids from 0 to ");
  }
}

Json run_of(Api& api, const Json& body, int status = 200) {
  const ApiResponse response = api.handle({.method = "POST", .path = "/api/runs", .query = {}, .body = body.dump()});
  EXPECT_EQ(response.status, status) << response.body;
  return Json::parse(response.body);
}

std::vector<int32_t> shown_ids(const Json& side) {
  std::vector<int32_t> ids;
  for (const Json& token : side["tokens"]) ids.push_back(token["id"]);
  return ids;
}

/// A run of token ids is the run of their text, but for the text's own tokenization.
TEST(TokenIds, RunsOfThePage) {
  Api api({tiny_inspected("gpt"), tiny_inspected("transformer")}, {});
  const Json text = run_of(api, {{"model", "m0"}, {"text", "hello"}});
  const Json ids = run_of(api, {{"model", "m0"}, {"ids", shown_ids(text["sides"][0])}});
  EXPECT_EQ(ids["sides"], text["sides"]);
  EXPECT_EQ(ids["output"], text["output"]);
  const Json pair = run_of(api, {{"model", "m1"}, {"text", "hello"}, {"target", "ab"}});
  std::vector<int32_t> target = shown_ids(pair["sides"][1]);
  target.erase(target.begin());  // the decoder's first token
  const Json same = run_of(api, {{"model", "m1"}, {"text", "hello"}, {"target_ids", target}});
  EXPECT_EQ(same["sides"], pair["sides"]);
  EXPECT_EQ(same["output"], pair["output"]);
  const auto error = [&](const Json& body) { return run_of(api, body, 400)["error"].get<std::string>(); };
  EXPECT_EQ(error({{"model", "m0"}, {"ids", {1, 5000}}}).substr(0, 38), "inspect: expected token ids from 0 to ");
  EXPECT_EQ(error({{"model", "m0"}, {"ids", "x"}}), "expected an array of token ids for 'ids'");
  EXPECT_EQ(error({{"model", "m0"}, {"ids", Json::array()}}), "expected an array of token ids for 'ids'");
  EXPECT_EQ(error({{"model", "m0"}, {"ids", {1}}, {"text", "a"}}), "expected 'text' or 'ids', got both");
  EXPECT_EQ(error({{"model", "m1"}, {"text", "a"}, {"target", "b"}, {"target_ids", {1}}}),
            "expected 'target' or 'target_ids', got both");
  EXPECT_EQ(error({{"model", "m1"}, {"ids", {1}}}),
            "inspect: these token ids are for language models, not for architecture transformer");
  EXPECT_EQ(error({{"model", "m0"}, {"ids", std::vector<int>(65, 5)}}),
            "inspect: the text has 65 tokens, but the model's context is 64");
}

TEST(TokenIds, ThePageKnowsWhichModelsAreServed) {
  InspectedModel served = tiny_inspected("gpt");
  served.served_name = "talker";
  served.has_chat = true;
  Api api({served, tiny_inspected("gpt")}, {});
  const Json info = Json::parse(api.handle({.method = "GET", .path = "/api/info", .query = {}, .body = {}}).body);
  EXPECT_EQ(info["models"][0]["serves"], (Json{{"name", "talker"}, {"chat", true}}));
  EXPECT_FALSE(info["models"][1].contains("serves"));
}

}  // namespace
}  // namespace attend::testing
