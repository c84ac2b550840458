// The field "attend" of /translate, and what /classify refuses.
#include <gtest/gtest.h>

#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

Json translated(const ServedModels& served, Json body) {
  body.update({{"source", "en"}, {"target", "de"}});
  return served.post("/translate", body);
}

std::string message_of(const Json& answer) {
  if (!answer.contains("error")) return answer.dump();
  const Json& error = answer["error"];
  return error.is_string() ? error.get<std::string>() : error["message"].get<std::string>();
}

TEST(Looks, OfATranslation) {
  const ServedModels served;
  const Json look{{"layers", {0, 1}}, {"heads", 1}, {"top", 3}};
  const Json answer = translated(served, {{"q", "hello"}, {"attend", look}});
  const Json same = served.post("/v1/completions", {{"model", "en-de"}, {"prompt", "hello"}, {"attend", look}});
  ASSERT_TRUE(answer.contains("attend")) << answer;
  ASSERT_GT(answer["attend"].size(), 1u);
  EXPECT_EQ(answer["attend"], same["choices"][0]["attend"]);
  EXPECT_EQ(answer["translatedText"], translated(served, {{"q", "hello"}})["translatedText"]);
  EXPECT_EQ(translated(served, {{"q", "\nhello\n"}, {"attend", look}})["attend"], answer["attend"]);
  EXPECT_EQ(translated(served, {{"q", ""}, {"attend", look}})["attend"], Json::array());
}

/// The weights are those of a pass over the best translation.
TEST(Looks, OfTheBestHypothesis) {
  const ServedModels served;
  const InspectedModel model = tiny_inspected("transformer");
  for (const std::string text : {"hello", "a cat", "small words"}) {
    const Json answer = translated(served, {{"q", text}, {"alternatives", 3}, {"attend", {{"top", 2}}}});
    ASSERT_TRUE(answer.contains("attend")) << answer;
    const std::string best = answer["translatedText"];
    const auto run = tiny_run(model, {.text = text, .target = best});
    std::string written;
    for (size_t i = 0; i < answer["attend"].size(); ++i) {
      const Json& token = answer["attend"][i];
      written += token["token"];
      EXPECT_GE(token["looked"].size(), 4u);
      for (const Json& one : token["looked"]) {
        const auto seen = std::ranges::find_if(
            run.attention, [&](const auto& attention) { return attention.trace.path == one["module"]; });
        ASSERT_NE(seen, run.attention.end()) << one;
        const auto weights = seen->trace.weights({.heads = {one["head"].get<int64_t>()},
                                                  .rows = {static_cast<int64_t>(i)},
                                                  .top = std::ssize(one["weights"])});
        const auto values = weights.values.to_vector<float>();
        for (size_t k = 0; k < values.size(); ++k) EXPECT_NEAR(one["weights"][k].get<double>(), values[k], 1e-5);
      }
    }
    EXPECT_EQ(written, best);
  }
}

TEST(Looks, OneTextAtATime) {
  const ServedModels served;
  const auto error = [&](const Json& body) { return message_of(translated(served, body)); };
  EXPECT_EQ(error({{"q", {"a", "b"}}, {"attend", Json::object()}}), "'attend' requires a 'q' that is a string");
  EXPECT_EQ(error({{"q", "a\nb"}, {"attend", Json::object()}}), "'attend' requires a 'q' with one line to translate");
  EXPECT_EQ(error({{"q", "a"}, {"attend", {{"layers", 9}}}}).substr(0, 36), "'attend.layers' must be from 0 to 3,");
  EXPECT_EQ(error({{"q", std::string(300, 'a')}}),
            "a text of 'q' has 301 tokens, but the model's context is 64 tokens");
}

TEST(Classifier, RefusesBlankTexts) {
  const ServedModels served;
  const auto error = [&](Json body) { return message_of(served.post("/classify", (body["model"] = "labels", body))); };
  EXPECT_EQ(error({{"text", ""}}), "'text' has a blank text");
  EXPECT_EQ(error({{"text", {"a", ""}}}), "'text' has a blank text at index 1");
}

TEST(Classifier, ReadsPairsOnlyIfItMayCompareThem) {
  const ServedModels served;
  const Json refused = served.post("/classify", {{"model", "labels"}, {"text", "a"}, {"second", "b"}});
  EXPECT_EQ(message_of(refused), "'second' is not for a classifier of single texts");
  EXPECT_EQ(refused["error"]["param"], "second");
}

}  // namespace
}  // namespace attend::testing
