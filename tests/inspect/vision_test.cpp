// Image models: the recorded run, and the files made from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "attend/inspect/arrays.h"
#include "attend/inspect/embeddings.h"
#include "attend/inspect/heads.h"
#include "attend/inspect/picture.h"
#include "attend/ops/softmax.h"
#include "inspect/inspect_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

attend::Run vision_run(RunOptions options = {}) {
  options.text = "motley.png";
  options.picture = motley_picture(9, 12);
  return capture(tiny_vision(), std::move(options));
}

TEST(VisionRun, HasPatchesAsTokensAndTheLabelsOfClassify) {
  const InspectedModel model = tiny_vision();
  const attend::Run run = vision_run();
  ASSERT_EQ(run.sides.size(), 1u);
  EXPECT_EQ(run.sides[0].name, "image");
  EXPECT_EQ(run.sides[0].text, "motley.png");
  std::vector<std::string> names;
  for (const ShownToken& token : run.sides[0].tokens) names.push_back(token.text);
  EXPECT_EQ(names, (std::vector<std::string>{"[CLS]", "r1c1", "r1c2", "r2c1", "r2c2"}));
  ASSERT_TRUE(run.sides[0].picture.has_value());
  EXPECT_EQ(run.sides[0].picture->rows, 2);
  EXPECT_EQ(run.sides[0].picture->columns, 2);
  EXPECT_EQ(run.sides[0].picture->image.pixels, model.preparation.sized(*motley_picture(9, 12)).pixels);
  ASSERT_EQ(run.attention.size(), 2u);
  EXPECT_EQ(run.attention[0].stack, "stack");
  EXPECT_EQ(run.attention[1].queries(), 5);
  const auto& vision = dynamic_cast<const Vision&>(*model.model);
  const auto shares = softmax(vision.classify(model.preparation.pixels(*motley_picture(9, 12)))).to_vector<double>();
  ASSERT_EQ(run.output.labels.size(), 2u);
  EXPECT_GE(run.output.labels[0].score, run.output.labels[1].score);
  for (const ShownLabel& one : run.output.labels) EXPECT_EQ(one.score, shares[one.name == "cat" ? 0 : 1]);
}

TEST(VisionRun, EveryValueHasARowForEachToken) {
  const attend::Run run = vision_run();
  for (const auto& [name, tensor] : run.values) EXPECT_EQ(tensor.dim(0), 5) << name;
}

TEST(VisionRun, AblationChangesTheLabels) {
  const attend::Run whole = vision_run();
  for (const RunOptions& options :
       {RunOptions{.heads = {{.attention = 0, .head = 1}}}, RunOptions{.tokens = {{.side = 0, .index = 2}}}}) {
    EXPECT_NE(vision_run(options).output.labels[0].score, whole.output.labels[0].score);
  }
  const attend::Run held = vision_run({.tokens = {{.side = 0, .index = 2}}});
  for (const float weight : run_array(held, "weights/1/0", {.first_column = 2, .end_column = 3}).values) {
    EXPECT_EQ(weight, 0);
  }
  expect_error<ShapeError>([] { vision_run({.tokens = {{.side = 0, .index = 5}}}); },
                           "ablation: there is no token 5 in the image; it has 5, counted from 0");
}

TEST(VisionRun, RefusesInvalidOptions) {
  expect_error<Error>([] { capture(tiny_vision(), {.text = "a cat"}); },
                      "inspect: architecture vision reads images, but none was given");
  expect_error<ShapeError>([] { capture(tiny_inspected("gpt"), {.text = "a", .picture = motley_picture(2, 2)}); },
                           "inspect: architecture gpt reads text, not images");
}

TEST(VisionDocument, ContainsThePictureAndPositions) {
  InspectedModel model = tiny_vision();
  model.example = "motley.png";
  const Json json = Json::parse(inspect_document(model, vision_run()));
  EXPECT_EQ(json["info"]["models"][0]["kind"], "image");
  EXPECT_EQ(json["info"]["models"][0]["labels"], Json::parse(R"(["cat", "狗"])"));
  const Json& picture = json["run"]["sides"][0]["picture"];
  EXPECT_EQ(picture["rows"], 2);
  EXPECT_EQ(picture["columns"], 2);
  EXPECT_TRUE(picture["data"].get<std::string>().starts_with("data:image/png;base64,iVBORw0KGgo"));
  EXPECT_EQ(json["positions"]["points"][3]["text"], "r2c1");
  for (const char* absent : {"embeddings", "alignment", "generation"}) EXPECT_FALSE(json.contains(absent)) << absent;
  EXPECT_TRUE(json["arrays"].contains("rollout/stack"));
}

/// On a black image only the tint is visible: proportional to the weight of each patch.
TEST(VisionPicture, ShadesPatchesByWeight) {
  const auto black = std::make_shared<const Image>(Image{.width = 6, .height = 6, .pixels = std::vector<uint8_t>(108)});
  const attend::Run run = capture(tiny_vision(), {.text = "black.png", .picture = black});
  for (const int64_t query : {int64_t{0}, int64_t{3}}) {
    for (const bool is_rollout : {false, true}) {
      PictureOptions options{.attention = {}, .head = {}, .query = query, .is_rollout = is_rollout};
      if (!is_rollout) options.attention = 1, options.head = 1;
      const std::string png = picture_png(run, options).bytes;
      const Image image = decode_image(std::as_bytes(std::span(png)), "png");
      const auto weights = run_array(run, is_rollout ? "rollout/stack" : "weights/1/1",
                                     {.first_row = query, .first_column = 1, .end_row = query + 1})
                               .values;
      const double most = std::ranges::max(weights);
      constexpr std::array<std::pair<int64_t, int64_t>, 4> kMiddles{{{200, 280}, {640, 280}, {200, 720}, {640, 720}}};
      for (size_t i = 0; i < 4; ++i) {
        const double share = weights[i] / most;
        EXPECT_NEAR(image.at(kMiddles[i].first, kMiddles[i].second, 0), 255 * share * (0.8 - 0.6 * share), 1);
      }
    }
  }
}

TEST(VisionPicture, SvgHasTheSameShading) {
  const attend::Run run = vision_run();
  const std::string all = picture_svg(run);
  size_t maps = 0;
  for (size_t at = all.find("<use href=\"#under\""); at != std::string::npos; at = all.find("<use", at + 1)) ++maps;
  EXPECT_EQ(maps, 4u);
  EXPECT_NE(all.find("head 1 · [CLS]"), std::string::npos);
  EXPECT_NE(picture_svg(run, {.attention = 1, .head = 0, .query = 4}).find("head 0 · r2c2"), std::string::npos);
  expect_error<ShapeError>([&] { picture_svg(run, {.attention = {}, .head = {}, .query = 5}); },
                           "inspect: there is no token 5; the image has 5, counted from 0");
  expect_error<ShapeError>(
      [] { picture_svg(tiny_run(tiny_inspected("gpt"), {.text = "ab"}), {.attention = {}, .head = {}, .query = 1}); },
      "inspect: query and rollout pictures need an image model, and this model reads text");
}

}  // namespace
}  // namespace attend::testing
