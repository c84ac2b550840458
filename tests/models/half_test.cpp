// Training with bf16 activations: every architecture's loss and gradients are near those of f32, and training lowers
// the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/models/registry.h"
#include "attend/ops/cross_entropy.h"
#include "attend/ops/precision.h"
#include "attend/optim/adam.h"
#include "attend/tensor/creation.h"
#include "testing/half_device.h"

namespace attend {
namespace {

using testing::half_device;
using Settings = std::map<std::string, std::string>;

struct Variant {
  std::string name, architecture;
  Settings settings;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

Tensor ids(std::vector<int64_t> values, int64_t rows) {
  const auto count = static_cast<int64_t>(values.size());
  return tensor<int64_t>(values, {rows, count / rows});
}

class HalfModels : public ::testing::TestWithParam<Variant> {
 protected:
  HalfModels() {
    Settings settings = GetParam().settings;
    settings["vocab_size"] = "23";
    settings.try_emplace("dropout", "0.1");
    if (GetParam().architecture == "encoder") settings["labels"] = R"(["no", "yes", "maybe"])";
    Rng rng{7};
    model_ = create_model(with_settings(preset_config(GetParam().architecture, "tiny"), settings), rng);
    model_->to(half_device());
  }

  Tensor loss(const ForwardPass& pass = {}) const {
    if (const auto* pair = dynamic_cast<const PairModel*>(model_.get())) {
      const PairInputs inputs{.source = ids({5, 6, 7, 8, 3, 9, 10, 3, 0, 0}, 2),
                              .source_lengths = tensor<int64_t>({5, 3}, {2}),
                              .target = ids({2, 11, 12, 13, 2, 14, 15, 16}, 2)};
      return pair->head().loss(pair->hidden(inputs, pass), ids({11, 12, 13, 3, 14, 15, 16, 3}, 2));
    }
    if (const auto* language = dynamic_cast<const LanguageModel*>(model_.get())) {
      const Tensor hidden = language->hidden(ids({2, 5, 6, 7, 8, 9, 2, 10, 11, 12, 13, 14}, 2), pass);
      return language->head().loss(hidden, ids({5, 6, 7, 8, 9, 3, 10, 11, 12, 13, 14, 3}, 2));
    }
    const auto& encoder = dynamic_cast<const EncoderModel&>(*model_);
    const TextInputs inputs{.ids = ids({2, 5, 6, 3, 2, 7, 3, 0, 2, 9, 10, 3}, 3),
                            .lengths = tensor<int64_t>({4, 3, 4}, {3})};
    return cross_entropy(encoder.classify(inputs, pass), tensor<int64_t>({2, 0, 1}, {3}));
  }

  struct Outcome {
    double loss = 0;
    std::vector<double> gradients;
  };
  Outcome outcome(Precision precision) const {
    const PrecisionScope scope(precision, half_device());
    const Tensor value = loss();
    EXPECT_EQ(value.dtype(), DType::f32);
    backward(value);
    Outcome result{.loss = value.item(), .gradients = {}};
    for (const auto& [name, parameter] : model_->parameters()) {
      const Tensor gradient = grad(parameter);
      if (!gradient) continue;  // the masked head of an encoder
      EXPECT_EQ(gradient.dtype(), DType::f32) << name;
      const auto values = gradient.to_vector<double>();
      result.gradients.insert(result.gradients.end(), values.begin(), values.end());
      zero_grad(parameter);
    }
    return result;
  }

  std::unique_ptr<Model> model_;
};

// A rounding error is at most u = 2⁻⁹ of a value. A layer rounds about 12 results in each pass, and the errors of the
// tiny models' 4 to 8 layers are independent: √(2 · 12 · 8) u = 0.027. The activations are smooth: with ReLU, a
// rounding error e that moves a share e of the units across 0 would change the gradient by √e.
TEST_P(HalfModels, LossAndGradientsAreNearThoseOfF32) {
  const Outcome exact = outcome(Precision::f32), half = outcome(Precision::bf16);
  EXPECT_NEAR(half.loss, exact.loss, 0.01 * exact.loss);
  ASSERT_EQ(half.gradients.size(), exact.gradients.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    difference += std::pow(half.gradients[i] - exact.gradients[i], 2);
    size += std::pow(exact.gradients[i], 2);
  }
  const double relative = std::sqrt(difference / size);
  RecordProperty("relative_error", std::to_string(relative));
  EXPECT_LT(relative, 0.03);
  EXPECT_GT(relative, 1e-4);  // otherwise nothing was rounded
}

TEST_P(HalfModels, SameBitsTwice) {
  const Outcome first = outcome(Precision::bf16), second = outcome(Precision::bf16);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST_P(HalfModels, TrainingLowersTheLoss) {
  const PrecisionScope scope(Precision::bf16, half_device());
  Adam adam(model_->parameters(), {.lr = 1e-3});
  Rng rng{1};
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor value = loss({.rng = &rng});
    last = value.item();
    if (step == 0) first = last;
    backward(value);
    adam.step();
    for (const auto& [name, parameter] : model_->parameters()) zero_grad(parameter);
  }
  EXPECT_LT(last, 0.75 * first);
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, HalfModels,
    ::testing::Values(
        Variant{"rnn", "rnn", {}}, Variant{"lstm", "rnn", {{"cell", "lstm"}, {"layers", "2"}}},
        Variant{"bahdanau", "rnn-attention", {}}, Variant{"luong", "rnn-attention", {{"score", "general"}}},
        Variant{"transformer", "transformer", {{"activation", "gelu"}}},
        Variant{"relative", "transformer", {{"positions", "relative"}, {"norm_first", "yes"}, {"activation", "gelu"}}},
        Variant{"gpt", "gpt", {}},
        Variant{"llama",
                "gpt",
                {{"positions", "rotary"},
                 {"rms_norm", "yes"},
                 {"gated", "yes"},
                 {"key_heads", "2"},
                 {"tied", "no"},
                 {"bias", "no"}}},
        Variant{"alibi", "gpt", {{"positions", "alibi"}}}, Variant{"encoder", "encoder", {}}),
    [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace attend
