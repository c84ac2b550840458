// T5's relative positions: buckets as in its paper and code, and equal results by view and by gather.
#include "attend/nn/relative_bias.h"

#include "attend/ops/arithmetic.h"
#include "attend/ops/attention.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_error;

RelativeBias make(bool both, int64_t buckets = 32, int64_t most = 128) {
  Rng rng{3};
  return RelativeBias::create({.heads = 3, .buckets = buckets, .max_distance = most, .looks_both_ways = both}, rng);
}

TEST(RelativeBias, BucketsAsInT5) {
  // transformers' T5Attention._relative_position_bucket for distances −130, −64, −20, −16, −8, −7, −1, 0, 1, 7, 8, 20,
  // 130
  const std::vector<int64_t> distances{-130, -64, -20, -16, -8, -7, -1, 0, 1, 7, 8, 20, 130};
  const std::vector<int64_t> both{15, 14, 10, 10, 8, 7, 1, 0, 17, 23, 24, 26, 31};
  const std::vector<int64_t> back{31, 26, 17, 16, 8, 7, 1, 0, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < distances.size(); ++i) {
    EXPECT_EQ(make(true).bucket(distances[i]), both[i]) << distances[i];
    EXPECT_EQ(make(false).bucket(distances[i]), back[i]) << distances[i];
  }
}

TEST(RelativeBias, AViewOfDistancesEqualsTheWholeTable) {
  for (const bool both : {true, false}) {
    const RelativeBias bias = make(both, 8, 20);
    for (const auto& places : {RelativeBias::Places{.queries = 33, .keys = 33},
                               {.queries = 1, .keys = 40, .first = 39},
                               {.queries = 5, .keys = 12, .first = 7}}) {
      const Tensor recorded = bias.forward(places);
      EXPECT_TRUE(needs_grad(recorded));
      const NoGrad scope;
      const Tensor view = bias.forward(places);
      EXPECT_EQ(view.shape(), (Shape{1, 3, places.queries, places.keys}));
      EXPECT_EQ(view.to_vector(), recorded.to_vector());
      const auto values = view.to_vector(), table = bias.weight.to_vector();
      for (int64_t i = 0; i < places.queries; ++i) {
        for (int64_t j = 0; j < places.keys; ++j) {
          const int64_t bucket = bias.bucket(j - i - places.first);
          EXPECT_EQ(values[static_cast<size_t>((1 * places.queries + i) * places.keys + j)],
                    table[static_cast<size_t>(bucket * 3 + 1)]);
        }
      }
    }
  }
}

TEST(RelativeBias, TheFusedAttentionReadsTheView) {
  const RelativeBias bias = make(true, 8, 20);
  const Tensor q = testing::random_f32({2, 3, 100, 8}, 1), k = testing::random_f32({2, 3, 100, 8}, 2),
               v = testing::random_f32({2, 3, 100, 8}, 3);
  const NoGrad scope;
  const Tensor view = bias.forward({.queries = 100, .keys = 100});
  const auto by_view = attention(q, k, v, {.bias = view}).to_vector();
  const auto by_copy = attention(q, k, v, {.bias = view.clone()}).to_vector();
  for (size_t i = 0; i < by_view.size(); ++i) ASSERT_NEAR(by_view[i], by_copy[i], 1e-6);
}

TEST(RelativeBias, Gradients) {
  testing::expect_module_gradients(
      make(true, 8, 20), {testing::random_f64({1, 3, 7, 7}, 1)},
      [](const RelativeBias& m, const auto& in) { return m.forward({.queries = 7, .keys = 7}) + in[0]; });
}

TEST(RelativeBias, RefusesInvalidOptions) {
  Rng rng;
  expect_error<ShapeError>([&] { RelativeBias::create({.heads = 0}, rng); },
                           "RelativeBias: heads must be at least 1, got 0");
  expect_error<ShapeError>([&] { RelativeBias::create({.heads = 2, .buckets = 7}, rng); },
                           "RelativeBias: buckets must be even and at least 4, got 7");
  expect_error<ShapeError>([&] { RelativeBias::create({.heads = 2, .buckets = 32, .max_distance = 8}, rng); },
                           "RelativeBias: max_distance must be larger than 8 for 32 buckets, got 8");
}

}  // namespace
}  // namespace attend
