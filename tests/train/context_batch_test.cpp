// Batches of sequences that several processes divide among themselves.
#include "train/context_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "attend/autograd/autograd.h"
#include "attend/models/gpt.h"
#include "attend/models/setting_error.h"
#include "attend/ops/arithmetic.h"
#include "attend/tensor/creation.h"
#include "distributed/thread_group.h"

namespace attend {
namespace {

using distributed::Group;
using distributed::run_ranks;

GptConfig config_of(Positions positions) {
  return {.vocab_size = 11, .context = 26, .dim = 16, .heads = 4, .layers = 2, .positions = positions, .dropout = 0};
}

std::unique_ptr<Gpt> model_of(const GptConfig& config) {
  Rng rng{5, 0};
  return Gpt::create(config, rng);
}

/// Two sequences whose last labels are ignored.
MicroBatch batch_of(const Gpt& model) {
  const int64_t length = model.settings.context;
  std::vector<int64_t> ids, labels;
  for (int64_t i = 0; i < 2 * length; ++i) {
    ids.push_back(static_cast<int64_t>(philox(3, static_cast<uint64_t>(i), 0)[0] % 11));
    labels.push_back(i % length >= length - 5 ? -100
                                              : static_cast<int64_t>(philox(4, static_cast<uint64_t>(i), 0)[0] % 11));
  }
  return {.tokens = 2 * (length - 5),
          .read = 2 * length,
          .inputs = {{tensor(ids, {2, length}), 11}, {tensor(labels, {2, length}), 11, true}},
          .loss = [&model](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
            return model.head().loss(model.hidden(inputs[0], pass), inputs[1]);
          }};
}

std::vector<Tensor> values_of(const MicroBatch& batch) {
  std::vector<Tensor> values;
  for (const BatchInput& input : batch.inputs) values.push_back(input.values);
  return values;
}

struct Step {
  double loss = 0;
  int64_t tokens = 0;
  std::vector<std::vector<double>> gradients;
};

/// Adds the gradients of `share` · loss.
void add_step(Step& step, const Gpt& model, const MicroBatch& batch, double share, bool recompute) {
  Rng rng;
  const Tensor loss = batch.loss(values_of(batch), {.rng = &rng, .recompute = recompute});
  backward(scale(loss, share));
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  step.loss += share * loss.item();
  step.tokens += batch.tokens;
  const auto parameters = model.parameters();
  step.gradients.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto values = grad(parameters[i].second).to_vector<double>();
    step.gradients[i].resize(values.size());
    for (size_t j = 0; j < values.size(); ++j) step.gradients[i][j] += values[j];
  }
}

void expect_same_step(const GptConfig& config, bool recompute = false) {
  const auto whole = model_of(config);
  const MicroBatch batch = batch_of(*whole);
  Step expected;
  add_step(expected, *whole, batch, 1, false);
  for (const int ranks : {2, 3}) {
    Step got;
    run_ranks(ranks, [&](Group& group) {
      const auto model = model_of(config);
      const ContextPart part(group, config.context);
      const MicroBatch mine = context_batch(batch_of(*model), part);
      EXPECT_EQ(mine.inputs[0].values.shape(), (Shape{2, part.size()}));
      add_step(got, *model, mine, static_cast<double>(mine.tokens) / static_cast<double>(batch.tokens), recompute);
      group.barrier();
    });
    EXPECT_EQ(got.tokens, batch.tokens);
    EXPECT_NEAR(got.loss, expected.loss, 1e-6 * expected.loss);
    double largest = 0;
    for (const auto& gradient : expected.gradients) {
      for (const double value : gradient) largest = std::max(largest, std::abs(value));
    }
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      double most = 0, error = 0;
      for (size_t j = 0; j < expected.gradients[i].size(); ++j) {
        most = std::max(most, std::abs(expected.gradients[i][j]));
        error = std::max(error, std::abs(got.gradients[i][j] - expected.gradients[i][j]));
      }
      // The exact gradient of a key bias is 0: it shifts all scores of a row alike.
      EXPECT_LE(error, 1e-5 * most + 1e-9 * largest) << whole->parameters()[i].first << ", " << ranks << " ranks";
    }
  }
}

TEST(ContextBatch, HasTheLossAndGradientsOfTheWholeBatch) {
  for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::alibi}) {
    SCOPED_TRACE(static_cast<int>(positions));
    expect_same_step(config_of(positions));
  }
  GptConfig grouped = config_of(Positions::rotary);
  grouped.key_heads = 2;
  grouped.window = 7;
  expect_same_step(grouped);
  expect_same_step(config_of(Positions::learned), true);
}

TEST(ContextBatch, NamesOptionsThatDoNotFit) {
  const auto model = model_of(config_of(Positions::learned));
  const auto message = [&](int64_t divided, int processes) -> std::string {
    TrainingOptions options;
    options.context_parallel = divided;
    try {
      check_context_parallel(*model, options, processes);
    } catch (const SettingError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(1, 7), "");
  EXPECT_EQ(message(2, 4), "");
  EXPECT_EQ(message(0, 4), "'context_parallel' must be at least 1, got 0");
  EXPECT_EQ(message(3, 4), "'context_parallel' is 3 and must divide the number of processes, which is 4");
  EXPECT_EQ(message(2, 1),
            "'context_parallel' is 2 and must divide the number of processes, which is 1: start more with mpirun or "
            "srun, or set it to 1");
  EXPECT_EQ(message(14, 14), "'context' must be at least twice 'context_parallel', got 26 and 14");
}

}  // namespace
}  // namespace attend
