#include "attend/nn/recurrent.h"

#include <cmath>

#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::expect_module_gradients;
using testing::in_f64;
using testing::random_f64;
using testing::values;

constexpr CellKind kKinds[] = {CellKind::tanh, CellKind::relu, CellKind::gru, CellKind::lstm};

Recurrent create(RecurrentConfig config, uint64_t seed = 1) {
  Rng rng{.seed = seed};
  return Recurrent::create(config, rng);
}

/// Output and final states in one tensor, so that a gradient check covers all of them.
Tensor everything(const RecurrentResult& result) {
  std::vector<Tensor> parts{reshape(result.output, {-1}), reshape(result.state.h, {-1})};
  if (result.state.c) parts.push_back(reshape(result.state.c, {-1}));
  return concat(parts, 0);
}

TEST(Recurrent, GradientsOfEveryKindAndDirection) {
  for (const CellKind kind : kKinds) {
    for (const bool both : {false, true}) {
      SCOPED_TRACE(static_cast<int>(kind) * 2 + both);
      const int64_t rows = both ? 4 : 2;
      const auto module = create({.input = 2, .state_dim = 3, .layers = 2, .bidirectional = both, .cell = kind});
      expect_module_gradients(module,
                              {random_f64({2, 3, 2}, 1), random_f64({rows, 2, 3}, 2), random_f64({rows, 2, 3}, 3)},
                              [kind](const Recurrent& m, const auto& in) {
                                const Tensor c = kind == CellKind::lstm ? in[2] : Tensor{};
                                const Tensor y = everything(m.forward({.x = in[0], .state = {in[1], c}}));
                                return c ? y : y + sum(in[2]) * 0.0;  // the unused input still gets a gradient
                              });
    }
  }
}

TEST(Recurrent, GradientsWithPaddingAndWithoutBiases) {
  for (const CellKind kind : kKinds) {
    const auto module = create({.input = 2, .state_dim = 2, .bidirectional = true, .bias = false, .cell = kind});
    expect_module_gradients(module, {random_f64({3, 4, 2}, 4)}, [](const Recurrent& m, const auto& in) {
      return everything(m.forward({.x = in[0], .lengths = tensor<int64_t>({4, 1, 3}, {3})}));
    });
  }
}

TEST(Recurrent, SameBitsOnAnyThreads) {
  for (const CellKind kind : kKinds) {
    testing::expect_module_same_bits(
        create({.input = 33, .state_dim = 40, .cell = kind}), {random_f64({5, 9, 33}, 4)},
        [](const Recurrent& m, const auto& in) { return everything(m.forward({.x = in[0]})); });
  }
}

TEST(Recurrent, PaddedSequencesEqualSequencesAlone) {
  for (const CellKind kind : kKinds) {
    const auto module = in_f64(create({.input = 3, .state_dim = 4, .layers = 2, .bidirectional = true, .cell = kind}));
    const Tensor x = random_f64({2, 6, 3}, 5);
    const auto padded = module.forward({.x = x, .lengths = tensor<int64_t>({4, 6}, {2})});
    const auto alone = module.forward({.x = slice(slice(x, 0, 0, 1), 1, 0, 4)});
    expect_equal(slice(slice(padded.output, 0, 0, 1), 1, 0, 4), alone.output);
    expect_equal(slice(padded.state.h, 1, 0, 1), alone.state.h);
    if (kind == CellKind::lstm) expect_equal(slice(padded.state.c, 1, 0, 1), alone.state.c);
    for (const double value : values(slice(slice(padded.output, 0, 0, 1), 1, 4, 6))) EXPECT_EQ(value, 0);
  }
}

TEST(Recurrent, AnEmptySequenceKeepsItsInitialState) {
  const auto module = in_f64(create({.input = 3, .state_dim = 4, .cell = CellKind::gru}));
  const Tensor h = random_f64({1, 2, 4}, 6);
  const auto result =
      module.forward({.x = random_f64({2, 3, 3}, 5), .state = {h, {}}, .lengths = tensor<int64_t>({0, 3}, {2})});
  expect_equal(slice(result.state.h, 1, 0, 1), slice(h, 1, 0, 1));
}

TEST(Recurrent, StepByStepEqualsTheWhole) {
  for (const CellKind kind : kKinds) {
    const auto module = in_f64(create({.input = 3, .state_dim = 4, .layers = 2, .cell = kind}));
    const Tensor x = random_f64({2, 5, 3}, 7);
    const auto whole = module.forward({.x = x});
    RecurrentResult last;
    for (int64_t t = 0; t < 5; ++t) {
      last = module.step(select(x, 1, t), last.state);
      expect_equal(last.output, select(whole.output, 1, t));
    }
    expect_equal(last.state.h, whole.state.h);
  }
}

// Thousands of steps must neither overflow the stack nor cost quadratic time in the backward pass.
TEST(Recurrent, LongSequences) {
  const auto module = create({.input = 1, .state_dim = 2, .cell = CellKind::lstm});
  const Tensor x = parameter(testing::random_f32({1, 3000, 1}, 1));
  backward(sum(module.forward({.x = x}).output));
  for (const double value : values(grad(module.layers[0].forward.hidden.weight))) EXPECT_TRUE(std::isfinite(value));
}

TEST(Recurrent, NothingIsRecordedWithoutGradients) {
  const auto module = create({.input = 1, .state_dim = 2});
  const NoGrad no_grad;
  EXPECT_FALSE(module.forward({.x = zeros({1, 2, 1})}).output.variable());
}

TEST(Recurrent, NamesAndCounts) {
  Rng rng;
  const auto lstm = LSTM::create({.input = 3, .state_dim = 5, .layers = 2, .bidirectional = true}, rng);
  EXPECT_EQ(count_parameters(lstm), 2 * (20 * 3 + 20 * 5 + 40) + 2 * (20 * 10 + 20 * 5 + 40));
  const auto saved = save_parameters(lstm);
  EXPECT_TRUE(saved.contains("layers.1.backward.hidden.weight"));
  EXPECT_TRUE(saved.contains("layers.0.forward.input.bias"));
  EXPECT_EQ(GRU::create({.input = 3, .state_dim = 5}, rng).layers[0].forward.input.weight.shape(), (Shape{15, 3}));
  for (const double value : values(saved.at("layers.0.forward.input.weight")))
    EXPECT_LE(std::abs(value), 1 / std::sqrt(5.0));
}

TEST(Recurrent, ErrorsSayWhatWasExpected) {
  Rng rng;
  const auto gru = GRU::create({.input = 3, .state_dim = 5}, rng);
  expect_error<ShapeError>(
      [&] {
        gru.forward({.x = zeros({2, 0, 3})});
      },
      "Recurrent: expected x of shape [batch, length >= 1, 3], got [2, 0, 3]");
  expect_error<ShapeError>(
      [&] {
        gru.forward({.x = zeros({2, 4, 3}), .state = {zeros({1, 1, 5}), {}}});
      },
      "Recurrent: expected state h of shape [1, 2, 5], got [1, 1, 5]");
  expect_error<ShapeError>(
      [&] {
        gru.forward({.x = zeros({2, 4, 3}), .state = {{}, zeros({1, 2, 5})}});
      },
      "Recurrent: only LSTM cells have a state c");
  expect_error<ShapeError>(
      [&] {
        gru.forward({.x = zeros({2, 4, 3}), .lengths = tensor<int64_t>({1}, {1})});
      },
      "Recurrent: expected lengths of shape [2], got [1]");
  expect_error<ShapeError>([&] { RNN::create({.input = 3, .state_dim = 5, .cell = CellKind::gru}, rng); },
                           "RNN: cell must be tanh or relu");
  const auto both = GRU::create({.input = 3, .state_dim = 5, .bidirectional = true}, rng);
  expect_error<ShapeError>(
      [&] {
        both.step(zeros({1, 3}));
      },
      "Recurrent: step() needs a network that is not bidirectional");
}

TEST(Recurrent, DropoutBetweenLayersOnly) {
  const auto one = create({.input = 3, .state_dim = 8, .dropout = 0.5});
  const auto two = create({.input = 3, .state_dim = 8, .layers = 2, .dropout = 0.5});
  const Tensor x = testing::random_f32({2, 4, 3}, 1);
  Rng rng{.seed = 4};
  EXPECT_EQ(values(one.forward({.x = x}, {.rng = &rng}).output), values(one.forward({.x = x}).output));
  EXPECT_NE(values(two.forward({.x = x}, {.rng = &rng}).output), values(two.forward({.x = x}).output));
}

}  // namespace
}  // namespace attend
