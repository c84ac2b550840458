#include "attend/inspect/arrays.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attend/inspect/embeddings.h"
#include "attend/inspect/heads.h"
#include "attend/ops/shape.h"
#include "inspect/inspect_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

float at(const Array& matrix, int64_t row, int64_t column) {
  return matrix.values[static_cast<size_t>(row * matrix.shape[1] + column)];
}

attend::Run gpt_run(int64_t length, const std::string& context = "64") {
  const InspectedModel model = tiny_inspected("gpt", {{"context", context}, {"layers", "2"}});
  std::string text;
  for (int64_t i = 0; i < length; ++i) text += static_cast<char>('a' + (i * i + i / 3) % 26);
  return tiny_run(model, {.text = text});
}

TEST(Arrays, PartsEqualSlicesOfTheWhole) {
  const attend::Run run = gpt_run(20);
  for (const char* name : {"weights/1/0", "scores/1/1", "q/0/0", "average/1", "rollout/stack",
                           "values/stack.layers.1.attention:residual"}) {
    const Array whole = run_array(run, name);
    const Array part = run_array(run, name, {.first_row = 3, .first_column = 2, .end_row = 11, .end_column = 5});
    ASSERT_EQ(part.shape, (Shape{8, 3})) << name;
    for (int64_t row = 0; row < 8; ++row) {
      for (int64_t column = 0; column < 3; ++column) {
        const float got = at(part, row, column), expected = at(whole, row + 3, column + 2);
        EXPECT_TRUE(got == expected || std::abs(got - expected) < 1e-6f) << name << " " << got << " " << expected;
      }
    }
  }
}

TEST(Arrays, AverageIsTheMeanOverHeads) {
  const attend::Run run = gpt_run(12);
  const Array mean = run_array(run, "average/0"), first = run_array(run, "weights/0/0"),
              second = run_array(run, "weights/0/1");
  for (size_t i = 0; i < mean.values.size(); ++i) {
    EXPECT_NEAR(mean.values[i], (first.values[i] + second.values[i]) / 2, 1e-7);
  }
}

TEST(Arrays, RolloutMultipliesHalfAttentionHalfResidual) {
  const attend::Run run = gpt_run(7);
  std::vector<double> product;
  for (const char* name : {"average/0", "average/1"}) {
    const Array mean = run_array(run, name);
    std::vector<double> mixed(49), next(49);
    for (size_t i = 0; i < 49; ++i) mixed[i] = 0.5 * static_cast<double>(mean.values[i]) + (i % 8 == 0 ? 0.5 : 0);
    if (product.empty()) {
      product = mixed;
      continue;
    }
    for (size_t r = 0; r < 7; ++r) {
      for (size_t c = 0; c < 7; ++c) {
        for (size_t k = 0; k < 7; ++k) next[r * 7 + c] += mixed[r * 7 + k] * product[k * 7 + c];
      }
    }
    product = next;
  }
  const Array got = run_array(run, "rollout/stack");
  for (size_t i = 0; i < 49; ++i) EXPECT_NEAR(static_cast<double>(got.values[i]), product[i], 1e-6);
}

TEST(Arrays, ThumbnailsAreMaxima) {
  const attend::Run run = gpt_run(23);
  const Array whole = run_array(run, "weights/0/1"), small = run_array(run, "thumbnails/5/0");
  ASSERT_EQ(small.shape, (Shape{2, 5, 5}));
  std::vector<float> expected(25);
  for (int64_t r = 0; r < 23; ++r) {
    for (int64_t c = 0; c < 23; ++c) {
      float& cell = expected[static_cast<size_t>(r * 5 / 23 * 5 + c * 5 / 23)];
      cell = std::max(cell, at(whole, r, c));
    }
  }
  EXPECT_EQ(std::vector<float>(small.values.begin() + 25, small.values.end()), expected);
  EXPECT_EQ(run_array(run, "thumbnails/64/0").shape, (Shape{2, 23, 23}));
}

/// The text is long enough that coarse tiles come from the summary.
TEST(Arrays, TilesOfEveryLevelAreMaximaOfTheWeights) {
  const int64_t length = 1500;
  const attend::Run run = gpt_run(length, "2048");
  const Array whole = run_array(run, "weights/1/1");
  for (int64_t level = 0; level <= 3; ++level) {
    const int64_t cells = ((length - 1) >> level) + 1;
    for (int64_t tile = 0; tile * 256 < cells; ++tile) {
      const std::string name = "tile/1/1/" + std::to_string(level) + "/" + std::to_string(tile) + "/0";
      const Array got = run_array(run, name);
      const int64_t rows = std::min<int64_t>(256, cells - tile * 256), columns = std::min<int64_t>(256, cells);
      ASSERT_EQ(got.shape, (Shape{rows, columns})) << name;
      std::vector<float> expected(static_cast<size_t>(rows * columns));
      for (int64_t r = (tile * 256) << level; r < std::min(length, (tile * 256 + rows) << level); ++r) {
        for (int64_t c = 0; c < std::min(length, columns << level); ++c) {
          float& cell = expected[static_cast<size_t>(((r >> level) - tile * 256) * columns + (c >> level))];
          cell = std::max(cell, at(whole, r, c));
        }
      }
      ASSERT_EQ(got.values, expected) << name;
    }
  }
}

TEST(Arrays, EveryListedArrayExistsInItsShape) {
  for (const char* architecture : {"transformer", "rnn-attention", "gpt", "encoder"}) {
    const attend::Run run = tiny_run(tiny_inspected(architecture), {.text = "hello you"});
    const std::vector<std::string> names = array_names(run);
    EXPECT_FALSE(names.empty());
    for (const std::string& name : names) {
      const Array array = run_array(run, name);
      EXPECT_EQ(std::ssize(array.values), array_size(run, name)) << name;
      EXPECT_EQ(array.shape.numel(), array_size(run, name)) << name;
    }
  }
}

TEST(Arrays, RefusesInvalidNamesAndRanges) {
  const attend::Run run = gpt_run(9);
  const auto expect = [&](const std::string& name, const std::string& message, const ArrayPart& part = {}) {
    expect_error<ShapeError>([&] { run_array(run, name, part); }, message);
  };
  expect("", "inspect: there is no array ''");
  expect("weight/0/0", "inspect: there is no array 'weight/0/0'");
  expect("weights/0", "inspect: expected 2 numbers after 'weights/', got 'weights/0'");
  expect("weights/0/0/0", "inspect: expected 2 numbers after 'weights/', got 'weights/0/0/0'");
  expect("weights/-1/0", "inspect: expected 2 numbers after 'weights/', got 'weights/-1/0'");
  expect("weights/99999999999999999999/0",
         "inspect: expected 2 numbers after 'weights/', got 'weights/99999999999999999999/0'");
  expect("weights/2/0", "inspect: there is no attention 2; the run has 2, counted from 0");
  expect("weights/0/2", "inspect: there is no head 2; the layer has 2, counted from 0");
  expect("weights/0/0", "inspect: rows 4 to 10 requested, but there are only 9", {.first_row = 4, .end_row = 10});
  expect("additive/0", "inspect: attention 0 has no additive score");
  expect("values/nothing", "inspect: the run has no value 'nothing'");
  expect("rollout/encoder", "rollout: the stack 'encoder' has no self-attention");
  expect("thumbnails/0/0", "inspect: a thumbnail's side is from 1 to 256, got 0");
  expect("tile/0/0/0/1/0", "inspect: tile 1, 0 lies outside the 9 × 9 cells of level 0");
  expect("tile/0/0/25/0/0", "inspect: level 25 is above 24");
}

TEST(Heads, FiguresMatchTheWeights) {
  const attend::Run run = gpt_run(19);
  for (const HeadFigures& figures : head_figures(run)) {
    const Array weights =
        run_array(run, "weights/" + std::to_string(figures.attention) + "/" + std::to_string(figures.head));
    const auto summary = head_summary(run, figures.attention, figures.head);
    double entropy = 0, distance = 0, peak = 0;
    std::vector<double> columns(19);
    for (int64_t r = 0; r < 19; ++r) {
      double row = 0, total = 0;
      float largest = 0;
      for (int64_t c = 0; c < 19; ++c) {
        const auto w = static_cast<double>(at(weights, r, c));
        if (w > 0) row -= w * std::log(w);
        total += w;
        columns[static_cast<size_t>(c)] += w;
        distance += w * std::abs(static_cast<double>(r - c));
        largest = std::max(largest, at(weights, r, c));
      }
      EXPECT_NEAR(summary->entropy[static_cast<size_t>(r)], row, 1e-6);
      EXPECT_NEAR(summary->row_totals[static_cast<size_t>(r)], total, 1e-5);
      entropy += row, peak += static_cast<double>(largest);
    }
    for (size_t c = 0; c < 19; ++c) EXPECT_NEAR(summary->column_totals[c], columns[c], 1e-5);
    EXPECT_NEAR(figures.entropy, entropy / 19, 1e-6);
    EXPECT_NEAR(figures.distance, distance / 19, 1e-6);
    EXPECT_NEAR(figures.peak, peak / 19, 1e-6);
  }
}

TEST(Embeddings, ThePlaneIsWhereTheVectorsDifferMost) {
  const InspectedModel model = tiny_inspected("gpt");
  for (auto& [name, tensor] : model.model->parameters()) {
    if (name != "embedding.weight") continue;
    // Most of the variance is along dimension 3, some along 5, little elsewhere.
    auto values = tensor.data<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] *= i % 16 == 3 ? 10 : i % 16 == 5 ? 4 : 0.1f;
  }
  const Plane plane = token_plane(*model.model, *model.tokenizer, 50);
  ASSERT_EQ(plane.points.size(), 50u);
  EXPECT_GT(plane.explained[0], 0.7);
  EXPECT_GT(plane.explained[1], 0.05);
  EXPECT_LE(plane.explained[0] + plane.explained[1], 1 + 1e-9);
  double mean = 0;
  for (const PlanePoint& point : plane.points) mean += point.x;
  EXPECT_NEAR(mean, 0, 1e-6);
  EXPECT_GT(position_plane(*model.model, 20).points.size(), 19u);
  expect_error<ShapeError>([&] { token_plane(*model.model, *model.tokenizer, 0); },
                           "embeddings: limit must be from 1 to 20000, got 0");
  const InspectedModel rotary = tiny_inspected("gpt", {{"positions", "rotary"}});
  expect_error<Error>([&] { position_plane(*rotary.model); },
                      "embeddings: a model of architecture gpt has no position embeddings");
}

TEST(Embeddings, NeighboursHaveTheLargestProducts) {
  const InspectedModel model = tiny_inspected("gpt");
  std::vector<float> table;
  for (const auto& [name, tensor] : model.model->parameters()) {
    if (name == "embedding.weight") table = tensor.to_vector<float>();
  }
  const auto row = [&](int32_t id, size_t d) { return static_cast<double>(table[static_cast<size_t>(id) * 16 + d]); };
  const TokenNeighbours found = token_neighbours(*model.model, *model.tokenizer, 40, 5);
  ASSERT_EQ(found.dot.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    double dot = 0, a = 0, b = 0;
    const int32_t other = found.cosine[i].token.id;
    for (size_t d = 0; d < 16; ++d) {
      dot += row(40, d) * row(other, d), a += row(40, d) * row(40, d), b += row(other, d) * row(other, d);
    }
    EXPECT_NEAR(found.cosine[i].value, dot / std::sqrt(a * b), 1e-5);
    EXPECT_NE(found.dot[i].token.id, 40);
    if (i > 0) {
      EXPECT_GE(found.dot[i - 1].value, found.dot[i].value);
    }
  }
  const std::string size = std::to_string(model.tokenizer->size());
  expect_error<ShapeError>([&] { token_neighbours(*model.model, *model.tokenizer, 9999, 5); },
                           "neighbours: there is no token 9999; there are " + size + ", counted from 0");
}

}  // namespace
}  // namespace attend::testing
