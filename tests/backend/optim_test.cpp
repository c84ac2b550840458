#include <gtest/gtest.h>

#include "backend/kernels.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

struct State {
  double p, m, v;
};

/// torch.optim.Adam / AdamW, one element.
State adam_by_hand(State s, double g, const AdamOptions& o, double weight_decay, int64_t steps) {
  if (o.decoupled)
    s.p -= o.lr * weight_decay * s.p;
  else
    g += weight_decay * s.p;
  s.m = o.beta1 * s.m + (1 - o.beta1) * g;
  s.v = o.beta2 * s.v + (1 - o.beta2) * g * g;
  const double step = static_cast<double>(steps);
  const double root = std::sqrt(s.v) / std::sqrt(1 - std::pow(o.beta2, step)) + o.eps;
  s.p -= o.lr / (1 - std::pow(o.beta1, step)) * s.m / root;
  return s;
}

TEST(Optim, AdamMatchesFormula) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (bool decoupled : {false, true}) {
      for (int64_t size : {1, 31, 33, 40000}) {
        const Tensor param = uniform({size}, -1, 1, {1, 0}, {dtype}), grad = uniform({size}, -1, 1, {2, 0}, {dtype});
        const Tensor m = zeros({size}, {dtype}), v = zeros({size}, {dtype});
        const auto before = param.to_vector<double>(), slopes = grad.to_vector<double>();
        const AdamOptions options{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decoupled = decoupled};
        const double norm = 7, most = 3.5;  // the gradients are halved
        const Tensor squares = full({}, norm * norm, {DType::f64});
        AdamSlot slot{
            .grad = rows(grad), .param = rows(param), .m = rows(m), .v = rows(v), .weight_decay = 0.1, .step = 1};
        for (; slot.step <= 3; ++slot.step) {
          kernels(default_device()).optim.adam(std::span(&slot, 1), options, {rows(squares), most});
        }
        const auto after = param.to_vector<double>();
        for (size_t i = 0; i < after.size(); ++i) {
          State s{before[i], 0, 0};
          const double scale = most / (norm + 1e-6);
          for (int64_t t = 1; t <= 3; ++t) s = adam_by_hand(s, slopes[i] * scale, options, 0.1, t);
          ASSERT_NEAR(after[i], s.p, dtype == DType::f32 ? 3e-7 : 1e-14);
        }
      }
    }
  }
}

TEST(Optim, SgdMatchesFormula) {
  for (double momentum : {0.0, 0.9}) {
    for (double dampening : {0.0, 0.3}) {
      for (bool nesterov : {false, true}) {
        const SgdOptions options{
            .lr = 0.1, .momentum = momentum, .weight_decay = 0.01, .dampening = dampening, .nesterov = nesterov};
        const Tensor param = random_f64({33}, 1), grad = random_f64({33}, 2);
        const Tensor buffer = momentum > 0 ? full({33}, std::nan(""), {DType::f64}) : Tensor{};
        auto expected = param.to_vector<double>();
        const auto slopes = grad.to_vector<double>();
        std::vector<double> history(33, 0);
        for (int step = 0; step < 3; ++step) {
          const SgdSlot slot{
              .grad = rows(grad), .param = rows(param), .buffer = rows_or_empty(buffer), .first = step == 0};
          kernels(default_device()).optim.sgd(std::span(&slot, 1), options, {});
          for (size_t i = 0; i < 33; ++i) {
            double g = slopes[i] + 0.01 * expected[i];
            if (momentum > 0) {
              history[i] = step == 0 ? g : momentum * history[i] + (1 - dampening) * g;
              g = nesterov ? g + momentum * history[i] : history[i];
            }
            expected[i] -= 0.1 * g;
          }
        }
        expect_close(param, expected, 1e-14);
      }
    }
  }
}

/// A norm below the limit scales nothing, and one that is not finite stops the update.
TEST(Optim, ANormThatIsNotFiniteChangesNothing) {
  const Tensor param = ones({5}), grad = ones({5}), m = zeros({5}), v = zeros({5});
  const AdamSlot adam{.grad = rows(grad), .param = rows(param), .m = rows(m), .v = rows(v)};
  const SgdSlot sgd{.grad = rows(grad), .param = rows(param)};
  for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
    const Tensor squares = full({}, bad, {DType::f64});
    kernels(default_device())
        .optim.adam(std::span(&adam, 1), {.lr = 1, .beta1 = 0.9, .beta2 = 0.9}, {rows(squares), 1});
    kernels(default_device()).optim.sgd(std::span(&sgd, 1), {.lr = 1}, {rows(squares), 1});
    expect_close(param, std::vector<double>(5, 1.0), 0);
    expect_close(m, std::vector<double>(5, 0.0), 0);
  }
  const Tensor squares = full({}, 0.25, {DType::f64});
  kernels(default_device()).optim.sgd(std::span(&sgd, 1), {.lr = 1}, {rows(squares), 1});
  expect_close(param, std::vector<double>(5, 0.0), 0);
}

}  // namespace
}  // namespace attend
