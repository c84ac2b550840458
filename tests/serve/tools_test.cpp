// The tools of interpretability over the page's API.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "attend/serve/api.h"
#include "inspect/inspect_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

Api tools_api() {
  return {{tiny_inspected("transformer"), tiny_inspected("gpt"), tiny_inspected("encoder")}, {.page = {}}};
}

ApiResponse ask(Api& api, const std::string& tool, const Json& body) {
  return api.handle({.method = "POST", .path = "/api/tools/" + tool, .query = {}, .body = body.dump()});
}

/// The lines of a tool's answer.
std::vector<Json> lines_of(const ApiResponse& response) {
  std::string all;
  EXPECT_TRUE(response.stream) << response.body;
  if (response.stream) response.stream([&](std::string_view piece) { return all += piece, true; });
  std::vector<Json> lines;
  std::istringstream text(all);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

Json result_of(const ApiResponse& response) {
  const std::vector<Json> lines = lines_of(response);
  EXPECT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().contains("result")) << lines.back();
  return lines.back().value("result", Json());
}

TEST(Tools, AnswerForEveryKindOfModel) {
  Api api = tools_api();
  for (const char* model : {"m0", "m1", "m2"}) {
    const Json base{{"model", model}, {"text", "hello there"}};
    const Json lens = result_of(ask(api, "lens", base));
    EXPECT_EQ(lens["places"][0]["cells"].size(), lens["points"].size()) << model;
    const Json shares = result_of(ask(api, "attribute", base));
    double sum = 0;
    for (const Json& part : shares["parts"]) sum += part["value"].get<double>();
    EXPECT_NEAR(sum, shares["value"].get<double>(), 1e-4) << model;
    EXPECT_LE(shares["error"].get<double>(), 0.01) << model;
    Json patch = base;
    patch["other"] = "small words";
    patch["wanted"] = model == std::string("m2") ? "good" : "a";
    patch["contrast"] = model == std::string("m2") ? "bad" : "b";
    patch["kinds"] = {"residual", "head"};
    const Json swept = result_of(ask(api, "patch", patch));
    EXPECT_EQ(swept["maps"][0]["kind"], "residual");
    EXPECT_FALSE(swept["maps"].back()["values"].empty());
    EXPECT_FALSE(result_of(ask(api, "detect", base))["heads"].empty());
    if (model == std::string("m2")) continue;
    Json probe = base;
    probe["module"] = model == std::string("m0") ? "decoder.layers.0.attention" : "stack.layers.0.attention";
    EXPECT_FALSE(result_of(ask(api, "probe", probe))["tokens"].empty());
  }
}

TEST(Tools, RefuseWhatIsWrong) {
  Api api = tools_api();
  const Json base{{"model", "m1"}, {"text", "hello"}};
  const auto with = [&](const char* key, const Json& value) {
    Json body = base;
    body[key] = value;
    return body;
  };
  const auto refused = [&](const std::string& tool, const Json& body) {
    const ApiResponse response = ask(api, tool, body);
    return std::to_string(response.status) + " " + response.body;
  };
  EXPECT_EQ(refused("telescope", base),
            R"(404 {"error":"expected lens, attribute, patch, detect or probe, got 'telescope'"})");
  EXPECT_EQ(refused("lens", with("top", 0)), R"(400 {"error":"expected a whole number from 1 to 50 for 'top'"})");
  EXPECT_EQ(refused("patch", with("kinds", {"soul"})), R"(400 {"error":"there is no kind 'soul' of activations"})");
  EXPECT_EQ(refused("probe", with("words", "a")), R"(400 {"error":"expected a list of texts for 'words'"})");
  EXPECT_EQ(refused("attribute", with("baseline", "x")), R"(400 {"error":"'baseline' must be mean or zero"})");
  EXPECT_EQ(lines_of(ask(api, "patch", base)).back()["error"], "patch: a second input is missing");
  EXPECT_EQ(
      lines_of(ask(api, "patch", with("other", "hello there"))).back()["error"],
      "patch: the text has 5 tokens, but that of the other run has 11; choose texts with the same number of tokens");
}

TEST(Tools, StopWhenTheClientLeaves) {
  Api api = tools_api();
  const ApiResponse response =
      ask(api, "patch",
          {{"model", "m1"}, {"text", "hello there"}, {"other", "small words"}, {"wanted", "a"}, {"contrast", "b"}});
  int pieces = 0;
  response.stream([&](std::string_view piece) {
    ++pieces;
    EXPECT_EQ(piece.find("result"), std::string_view::npos);
    return false;
  });
  EXPECT_EQ(pieces, 1);
}

TEST(Tools, LogitsAndSteeringOfARun) {
  Api api = tools_api();
  const auto run = [&](const Json& body) {
    return Json::parse(api.handle({.method = "POST", .path = "/api/runs", .query = {}, .body = body.dump()}).body);
  };
  Json body{{"model", "m1"}, {"text", "hello"}};
  const Json plain = run(body);
  const ApiResponse logits = api.handle({.method = "GET",
                                         .path = "/api/runs/" + plain["id"].get<std::string>() + "/logits",
                                         .query = {{"place", "4"}},
                                         .body = {}});
  EXPECT_EQ(Json::parse(logits.body)["top"][0]["id"], plain["output"]["rows"][4][0]["id"]);
  body["steer"] = {{{"point", "stack.layers.0:output"}, {"toward", "yes"}, {"strength", 8}}};
  const Json steered = run(body);
  EXPECT_EQ(steered["interventions"]["steer"][0]["toward"], "yes");
  EXPECT_NE(steered["output"], plain["output"]);
  body["steer"] = {{{"point", "nowhere"}, {"toward", "yes"}}};
  EXPECT_EQ(run(body)["error"], "steer: the model has no activation 'nowhere'");
}

}  // namespace
}  // namespace attend::testing
