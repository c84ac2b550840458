#include "attend/inspect/effects.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "inspect/inspect_testing.h"
#include "inspect/logits.h"

namespace attend::testing {
namespace {

/// The log-probabilities of a run's predictions: [places, words].
Tensor shares_of(const InspectedModel& model, const attend::Run& run) {
  const NoGrad scope;
  return log_softmax(run_logits(*model.model, run));
}

/// Makes the heads so strong that a prediction leaves the listed candidates without one of them.
InspectedModel strong(const std::string& architecture, std::map<std::string, std::string> settings = {}) {
  const InspectedModel model = tiny_inspected(architecture, std::move(settings));
  for (const auto& [name, tensor] : model.model->parameters()) {
    if (!name.ends_with("attention.output.weight")) continue;
    for (float& value : tensor.data<float>()) value *= 60;
  }
  return model;
}

TEST(HeadEffects, AreTheMeanLossOfLogProbability) {
  int64_t unlisted = 0;
  for (const InspectedModel& model : {strong("gpt"), strong("transformer"), strong("encoder", {{"labels", "[]"}})}) {
    RunOptions options{.text = "hello there"};
    if (model.model->kind() == ModelKind::translation) options.target = "dlrow";
    const std::vector<HeadEffect> effects = head_effects(model, options, std::chrono::minutes(1));
    const attend::Run before = capture(model, options);
    const Tensor own = shares_of(model, before);
    size_t heads = 0;
    for (const RunAttention& attention : before.attention) heads += static_cast<size_t>(attention.heads());
    ASSERT_EQ(effects.size(), heads);
    EXPECT_TRUE(std::ranges::is_sorted(effects, std::ranges::greater{}, &HeadEffect::loss));
    for (const HeadEffect& effect : effects) {
      RunOptions without = options;
      without.heads = {{.attention = effect.attention, .head = effect.head}};
      without.candidates = 20;
      const attend::Run after = capture(model, without);
      const Tensor other = shares_of(model, after);
      double sum = 0;
      for (int64_t place = 0; place < own.dim(0); ++place) {
        const int32_t best = before.output.rows[static_cast<size_t>(place)].front().token.id;
        const auto at = [&](const Tensor& shares) {
          return select(shares, 0, place).to_vector<double>()[static_cast<size_t>(best)];
        };
        sum += at(own) - at(other);
        const auto& listed = after.output.rows[static_cast<size_t>(place)];
        unlisted += std::ranges::none_of(listed, [&](const ShownCandidate& one) { return one.token.id == best; });
      }
      EXPECT_NEAR(effect.loss, sum / static_cast<double>(own.dim(0)), 1e-4) << model.model->config();
    }
  }
  EXPECT_GT(unlisted, 0) << "no prediction left the candidates";
}

}  // namespace
}  // namespace attend::testing
