#include "attend/nn/observer.h"

#include <gtest/gtest.h>

#include <map>

#include "attend/nn/transformer.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

struct Everything : AttentionRecorder {
  std::map<std::string, Tensor> values;
  std::map<std::string, Ablation> wanted;

  void computed(std::string_view what, const Tensor& value) override {
    values[path() + ":" + std::string(what)] = value.detach();
  }
  Ablation ablation() override { return wanted[path()]; }
};

struct ObserverTest : ::testing::Test {
  Rng rng{3};
  Transformer model = Transformer::create(
      {.layer = {.dim = 8, .heads = 2, .ffn_dim = 16, .norm_first = true}, .encoder_layers = 2, .decoder_layers = 1},
      rng);
  Tensor source = testing::random_f32({1, 5, 8}, 1), target = testing::random_f32({1, 3, 8}, 2);
  Everything seen;

  std::vector<float> run(Observer* observer) {
    return model.forward(source, target, {}, {.observer = observer}).to_vector<float>();
  }
};

TEST_F(ObserverTest, GivesThePathOfEachAttention) {
  run(&seen);
  std::vector<std::string> paths;
  for (const AttentionTrace& trace : seen.traces) paths.push_back(trace.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"encoder.layers.0.attention", "encoder.layers.1.attention",
                                             "decoder.layers.0.attention", "decoder.layers.0.cross_attention"}));
  EXPECT_EQ(seen.path(), "");
}

TEST_F(ObserverTest, ObservingChangesNothing) { EXPECT_EQ(run(nullptr), run(&seen)); }

TEST_F(ObserverTest, WeightsTimesValuesAreTheContext) {
  run(&seen);
  for (const AttentionTrace& trace : seen.traces) {
    const auto weights = trace.weights().values.to_vector<float>(), values = trace.v.to_vector<float>();
    const auto context = seen.values.at(trace.path + ":attended").to_vector<float>();
    const int64_t queries = trace.q.dim(2), keys = trace.k.dim(2), width = trace.v.dim(3);
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t d = 0; d < width; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            sum += static_cast<double>(weights[static_cast<size_t>((h * queries + i) * keys + j)]) *
                   static_cast<double>(values[static_cast<size_t>((h * keys + j) * width + d)]);
          }
          EXPECT_NEAR(sum, context[static_cast<size_t>((i * 2 + h) * width + d)], 1e-5) << trace.path;
        }
      }
    }
  }
}

TEST_F(ObserverTest, ResidualIsInputPlusBranch) {
  run(&seen);
  const auto input = seen.values.at("encoder.layers.0:input").to_vector<float>();
  const auto branch = seen.values.at("encoder.layers.0.attention:branch").to_vector<float>();
  const auto sum = seen.values.at("encoder.layers.0.attention:residual").to_vector<float>();
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_FLOAT_EQ(sum[i], input[i] + branch[i]);
  EXPECT_EQ(seen.values.at("encoder.layers.0:output").to_vector<float>(),
            seen.values.at("encoder.layers.1:input").to_vector<float>());
  EXPECT_TRUE(seen.values.contains("decoder:final"));
}

TEST_F(ObserverTest, AHeadSwitchedOffContributesNothing) {
  const auto before = run(nullptr);
  seen.wanted["encoder.layers.1.attention"].heads = {1};
  EXPECT_NE(run(&seen), before);
  const auto context = seen.values.at("encoder.layers.1.attention:attended").to_vector<float>();
  for (size_t i = 0; i < context.size(); ++i) EXPECT_EQ(context[i] == 0, i % 8 >= 4) << i;
}

TEST_F(ObserverTest, AHiddenKeyGetsNoWeight) {
  seen.wanted["decoder.layers.0.cross_attention"].keys = {2, 99};
  run(&seen);
  const auto weights = seen.traces[3].weights().values.to_vector<float>();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i] == 0, i % 5 == 2) << i;
}

TEST_F(ObserverTest, AMissingHeadIsNamed) {
  seen.wanted["decoder.layers.0.attention"].heads = {2};
  try {
    run(&seen);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "ablation: there is no head 2; the layer has 2, counted from 0");
  }
  EXPECT_EQ(seen.path(), "");
}

}  // namespace
}  // namespace attend
