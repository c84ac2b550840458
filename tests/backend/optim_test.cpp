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
State adam_by_hand(State s, double g, const AdamOptions& o) {
  g *= o.grad_scale;
  if (o.decoupled)
    s.p -= o.lr * o.weight_decay * s.p;
  else
    g += o.weight_decay * s.p;
  s.m = o.beta1 * s.m + (1 - o.beta1) * g;
  s.v = o.beta2 * s.v + (1 - o.beta2) * g * g;
  const double step = static_cast<double>(o.step);
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
        AdamOptions options{.lr = 0.01,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .decoupled = decoupled,
                            .grad_scale = 0.5};
        for (options.step = 1; options.step <= 3; ++options.step) {
          kernels(kCpu).optim.adam(rows(grad), options, rows(param), rows(m), rows(v));
        }
        const auto after = param.to_vector<double>();
        for (size_t i = 0; i < after.size(); ++i) {
          State s{before[i], 0, 0};
          for (options.step = 1; options.step <= 3; ++options.step) s = adam_by_hand(s, slopes[i], options);
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
        SgdOptions options{.lr = 0.1,
                           .momentum = momentum,
                           .weight_decay = 0.01,
                           .dampening = dampening,
                           .nesterov = nesterov,
                           .grad_scale = 2};
        const Tensor param = random_f64({33}, 1), grad = random_f64({33}, 2);
        const Tensor buffer = momentum > 0 ? full({33}, std::nan(""), {DType::f64}) : Tensor{};
        auto expected = param.to_vector<double>();
        std::vector<double> history(33, 0);
        for (int step = 0; step < 3; ++step) {
          options.first = step == 0;
          kernels(kCpu).optim.sgd(rows(grad), options, rows(param), rows_or_empty(buffer));
          for (size_t i = 0; i < 33; ++i) {
            double g = 2 * grad.data<double>()[i] + 0.01 * expected[i];
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

}  // namespace
}  // namespace attend
