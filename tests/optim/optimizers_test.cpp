#include <cmath>
#include <functional>

#include "attend/nn/linear.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/optim/adam.h"
#include "attend/optim/clip.h"
#include "attend/optim/sgd.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;

Tensor value_of(double value) { return parameter(tensor<double>({value}, {1})); }

template <class Optimizer>
double after(Optimizer& optimizer, const Tensor& value, double gradient) {
  set_grad(value, tensor<double>({gradient}, {1}));
  optimizer.step();
  return value.item();
}

// m = 0.9 m + 0.1 g, v = 0.99 v + 0.01 g², x −= lr · (m / (1 − 0.9^t)) / (√(v / (1 − 0.99^t)) + eps).
TEST(Adam, TwoStepsByHand) {
  const Tensor x = value_of(1);
  Adam adam({{"x", x}}, {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 0.001});
  EXPECT_NEAR(after(adam, x, 2), 1 - 0.1 * 2 / (2 + 0.001), 1e-12);
  const double m = 0.9 * 0.2 + 0.1 * -1, v = 0.99 * 0.04 + 0.01 * 1, before = 1 - 0.1 * 2 / 2.001;
  const double step = 0.1 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.99 * 0.99)) + 0.001);
  EXPECT_NEAR(after(adam, x, -1), before - step, 1e-12);
}

/// With the numbers of a step in memory, the same results.
template <class Optimizer>
void expect_same_with_rates(const std::function<Optimizer(const Tensor&)>& make) {
  std::vector<std::vector<double>> results;
  for (const bool with_rates : {false, true}) {
    const Tensor weight = parameter(tensor<double>({1.0, -2.0, 0.3}, {3, 1}));
    Optimizer optimizer = make(weight);
    for (int step = 1; step <= 4; ++step) {
      set_grad(weight, tensor<double>({0.3 * step, -1.0, 2.0}, {3, 1}));
      optimizer.config().lr = 0.1 / step;
      const std::vector<double> rates = optimizer.rates();
      optimizer.step({}, with_rates ? tensor(rates, {std::ssize(rates)}) : Tensor{});
    }
    results.push_back(weight.template to_vector<double>());
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-14);
}

TEST(Adam, ReadsItsRatesFromMemory) {
  expect_same_with_rates<Adam>([](const Tensor& weight) { return adamw({{"w", weight}}, {.weight_decay = 0.01}); });
  expect_same_with_rates<Sgd>([](const Tensor& weight) {
    return Sgd({{"w", weight}}, {.momentum = 0.9, .weight_decay = 0.01});
  });
}

TEST(Adam, StepCountsCanBeSet) {
  const Tensor x = value_of(1);
  Adam adam({{"x", x}}, {.lr = 0.1});
  after(adam, x, 1);
  EXPECT_EQ(adam.steps(), std::vector<int64_t>{1});
  adam.set_steps({5});
  EXPECT_EQ(adam.state().at("x.step").item(), 5);
  EXPECT_NEAR(adam.rates()[0], 0.1 / (1 - std::pow(0.9, 6)), 1e-12);
  expect_error<ShapeError>([&] { adam.set_steps({1, 2}); }, "Adam: expected 1 step counts, got 2");
}

TEST(Adam, DecayOfTheGradientAndOfTheParameterDiffer) {
  const Tensor x = value_of(3), y = value_of(3);
  Adam coupled({{"x", x}}, {.lr = 0.1, .eps = 0, .weight_decay = 0.5});
  Adam decoupled = adamw({{"y", y}}, {.lr = 0.1, .eps = 0, .weight_decay = 0.5});
  EXPECT_NEAR(after(coupled, x, 1), 3 - 0.1, 1e-12);                      // (1 + 0.5·3) / |1 + 0.5·3| = 1
  EXPECT_NEAR(after(decoupled, y, 1), 3 * (1 - 0.1 * 0.5) - 0.1, 1e-12);  // decay first, then the step
}

TEST(Adam, DecayCanSkipVectors) {
  const Tensor bias = value_of(3), weight = parameter(tensor<double>({3.0}, {1, 1}));
  Adam adam = adamw({{"b", bias}, {"w", weight}}, {.lr = 0.1, .weight_decay = 0.5, .decay_matrices_only = true});
  set_grad(bias, zeros({1}, {DType::f64}));
  set_grad(weight, zeros({1, 1}, {DType::f64}));
  adam.step();
  EXPECT_EQ(bias.item(), 3);
  EXPECT_NEAR(weight.item(), 3 * 0.95, 1e-12);
}

TEST(Adam, ParametersWithoutGradientStayAndCountTheirOwnSteps) {
  const Tensor x = value_of(1), y = value_of(1);
  Adam adam({{"x", x}, {"y", y}}, {.lr = 0.1, .eps = 0});
  after(adam, x, 1);
  EXPECT_EQ(y.item(), 1);
  EXPECT_EQ(adam.state().size(), 3u);
  zero_grad(x);
  EXPECT_NEAR(after(adam, y, 5), 0.9, 1e-12);  // y's first step is a full one
}

template <class Make>
void expect_resumes(Make make) {
  const Tensor x = value_of(1), y = value_of(1);
  auto whole = make(x);
  auto first = make(y);
  for (const double g : {1.0, -0.5}) after(whole, x, g), after(first, y, g);
  auto second = make(y);
  second.load_state(first.state());
  EXPECT_EQ(after(whole, x, 0.3), after(second, y, 0.3));
}

TEST(Optimizers, StateSavesAndResumesExactly) {
  expect_resumes([](const Tensor& x) { return Adam({{"x", x}}, {.lr = 0.1}); });
  expect_resumes([](const Tensor& x) { return Sgd({{"x", x}}, {.lr = 0.1, .momentum = 0.9}); });
}

TEST(Optimizers, StateErrorsNameTheEntry) {
  const Tensor x = value_of(1);
  Adam adam({{"x", x}}, {});
  expect_error<ShapeError>(
      [&] {
        adam.load_state({{"x.m", zeros({2})}});
      },
      "Adam: state x.m has shape [2] but the parameter has [1]");
  expect_error<ShapeError>(
      [&] {
        adam.load_state({{"x.m", zeros({1})}});
      },
      "Adam: the state of x must have m, v and step");
  Sgd sgd({{"x", x}}, {.momentum = 0.5});
  expect_error<ShapeError>(
      [&] {
        sgd.load_state({{"z.momentum", zeros({1})}});
      },
      "Sgd: the model has no parameter for state z.momentum");
}

TEST(Sgd, MomentumStartsAsTheFirstGradient) {
  const Tensor x = value_of(1);
  Sgd sgd({{"x", x}}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  EXPECT_NEAR(after(sgd, x, 2), 1 - 0.1 * 2, 1e-12);
  EXPECT_NEAR(after(sgd, x, 1), 0.8 - 0.1 * (0.9 * 2 + 0.5 * 1), 1e-12);
}

TEST(Sgd, NesterovLooksAhead) {
  const Tensor x = value_of(1);
  Sgd sgd({{"x", x}}, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  EXPECT_NEAR(after(sgd, x, 2), 1 - 0.1 * (2 + 0.9 * 2), 1e-12);
  EXPECT_NEAR(after(sgd, x, 1), 0.62 - 0.1 * (1 + 0.9 * (0.9 * 2 + 1)), 1e-12);
}

TEST(Sgd, PlainWithDecay) {
  const Tensor x = value_of(2);
  Sgd sgd({{"x", x}}, {.lr = 0.1, .weight_decay = 0.5});
  EXPECT_NEAR(after(sgd, x, 1), 2 - 0.1 * (1 + 0.5 * 2), 1e-12);
  EXPECT_TRUE(sgd.state().empty());
}

TEST(Optimizers, ConfigsOutOfRangeAreRefused) {
  expect_error<ShapeError>([] { Adam({}, {.lr = -1}); }, "Adam: lr must not be negative, got -1");
  expect_error<ShapeError>([] { Adam({}, {.beta2 = 1}); }, "Adam: beta1 and beta2 must be in [0, 1), got 0.9 and 1");
  expect_error<ShapeError>([] { Sgd({}, {.nesterov = true}); },
                           "Sgd: nesterov needs a momentum and no dampening, got 0 and 0");
}

// Fits a line to three collinear points: every optimiser must find it.
template <class Optimizer, class Config>
double fit(const Config& config) {
  Rng rng{.seed = 1};
  const Linear line = Linear::create({.in = 1, .out = 1}, rng);
  Optimizer optimizer(named_parameters(line), config);
  const Tensor x = tensor<float>({-1, 0, 1}, {3, 1}), y = tensor<float>({-1, 1, 3}, {3, 1});
  double loss = 0;
  for (int i = 0; i < 300; ++i) {
    const Tensor error = line.forward(x) - y, squares = mean(error * error);
    zero_grad(line);
    backward(squares);
    optimizer.step();
    loss = squares.item();
  }
  return loss;
}
TEST(Optimizers, FindALine) {
  EXPECT_LT(fit<Adam>(AdamConfig{.lr = 0.05}), 1e-6);
  EXPECT_LT(fit<Sgd>(SgdConfig{.lr = 0.05, .momentum = 0.8}), 1e-6);
}

TEST(ClipGradNorm, ScalesByTheNormOfAllTogether) {
  const Tensor a = parameter(zeros({1})), b = parameter(zeros({2})), none = parameter(zeros({1}));
  set_grad(a, tensor<float>({3}, {1}));
  set_grad(b, tensor<float>({0, -4}, {2}));
  const std::vector<NamedTensor> all{{"a", a}, {"b", b}, {"none", none}};
  EXPECT_NEAR(clip_grad_norm(all, 10), 5, 1e-6);
  expect_close(grad(b), {0, -4}, 0);  // within the limit: untouched
  EXPECT_NEAR(clip_grad_norm(all, 1), 5, 1e-6);
  expect_close(grad(a), {0.6}, 1e-6);
  expect_close(grad(b), {0, -0.8}, 1e-6);
  EXPECT_EQ(clip_grad_norm({}, 1), 0);
  expect_error<ShapeError>([&] { clip_grad_norm(all, 0); }, "clip_grad_norm: max_norm must be positive, got 0");
}

TEST(Optimizers, RefuseParametersOfAMappedFile) {
  const auto bytes = std::make_shared<std::vector<float>>(4, 1.0f);
  const auto storage = std::make_shared<Storage>(bytes->data(), 16, kCpu, bytes);
  const Tensor mapped = parameter(Tensor(storage, DType::f32, {4}, {1}));
  testing::expect_error<ShapeError>(
      [&] {
        Adam({{"layer.weight", mapped}}, {});
      },
      "Adam: parameter layer.weight is in a mapped file and read-only; clone() it, or use load_parameters()");
  testing::expect_error<ShapeError>(
      [&] {
        Sgd({{"layer.weight", mapped}}, {});
      },
      "Sgd: parameter layer.weight is in a mapped file and read-only; clone() it, or use load_parameters()");
}

TEST(Optimizers, TiedParametersMoveOnce) {
  const Tensor shared = value_of(1);
  const std::vector<NamedTensor> parameters{{"embedding", shared}, {"output", shared}};
  set_grad(shared, tensor<double>({3}, {1}));
  EXPECT_DOUBLE_EQ(clip_grad_norm(parameters, 100), 3);
  Sgd sgd(parameters, {.lr = 0.1});
  sgd.step();
  EXPECT_DOUBLE_EQ(shared.item(), 0.7);
}

}  // namespace
}  // namespace attend
