// ForwardPass::recompute: the same bits with less memory.
#include <gtest/gtest.h>

#include "attend/autograd/autograd.h"
#include "attend/models/registry.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

Tensor ids(int64_t rows, int64_t length) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < rows * length; ++i) all.push_back(3 + i * i % 29);
  return tensor<int64_t>(all, {rows, length});
}

/// The hidden vectors of a batch, with dropout.
Tensor hidden_of(const Model& model, const ForwardPass& pass) {
  const Tensor tokens = ids(4, 12);
  const Tensor lengths = tensor<int64_t>({12, 7, 1, 9}, {4});  // a target of 5 is short: unrecorded attention differs
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) return language->hidden(tokens, pass);
  if (const auto* pairs = dynamic_cast<const PairModel*>(&model)) {
    return pairs->hidden({.source = tokens, .source_lengths = lengths, .target = ids(4, 5)}, pass);
  }
  return dynamic_cast<const EncoderModel&>(model).hidden({.ids = tokens, .lengths = lengths}, pass);
}

struct Trained {
  std::vector<std::vector<float>> gradients;
  uint64_t next_stream = 0;
  size_t peak = 0;
};

Trained train_once(const Model& model, bool recompute) {
  Rng rng{.seed = 5};
  for (const auto& [name, parameter] : model.parameters()) zero_grad(parameter);
  const size_t before = memory_stats(default_device()).live_bytes;
  reset_peak_memory(default_device());
  {
    const Tensor y = hidden_of(model, {.rng = &rng, .recompute = recompute});
    backward(mean(y * y));
  }
  Trained result{.next_stream = rng.next, .peak = memory_stats(default_device()).peak_bytes - before};
  for (const auto& [name, parameter] : model.parameters()) {
    result.gradients.push_back(grad(parameter) ? grad(parameter).to_vector<float>() : std::vector<float>{});
  }
  return result;
}

const char* const kModels[] = {
    R"({"architecture": "gpt", "vocab_size": 32, "dim": 32, "heads": 4, "layers": 6, "context": 16, "dropout": 0.1})",
    R"({"architecture": "gpt", "vocab_size": 32, "dim": 32, "heads": 4, "layers": 6, "context": 16, "dropout": 0})",
    R"({"architecture": "transformer", "vocab_size": 32, "dim": 32, "heads": 4, "ffn_dim": 64, "encoder_layers": 4,
        "decoder_layers": 4, "context": 16, "dropout": 0.1})",
    R"({"architecture": "transformer", "vocab_size": 32, "dim": 32, "heads": 4, "ffn_dim": 64, "encoder_layers": 4,
        "decoder_layers": 4, "context": 16, "dropout": 0.1, "norm_first": true, "positions": "relative"})",
    R"({"architecture": "encoder", "vocab_size": 32, "dim": 32, "heads": 4, "layers": 6, "context": 16,
        "dropout": 0.1})"};

TEST(Recompute, GivesTheSameBitsWithLessMemory) {
  for (const char* config : kModels) {
    Rng rng{.seed = 1};
    const auto model = create_model(config, rng);
    const Trained plain = train_once(*model, false), again = train_once(*model, true);
    EXPECT_TRUE(plain.gradients == again.gradients) << config;
    EXPECT_EQ(plain.next_stream, again.next_stream) << config;
    EXPECT_LT(static_cast<double>(again.peak), 0.8 * static_cast<double>(plain.peak)) << config;
  }
}

TEST(Recompute, ASecondBackwardIsAnError) {
  Tensor x = parameter(tensor<float>({2, 3}, {2}));
  const auto square = [x] { return x * x; };
  Tensor y;
  {
    const NoGrad no_grad;
    y = square();
  }
  const Tensor z = recomputed(y, square);
  backward(z, tensor<float>({1, 10}, {2}));
  EXPECT_EQ(grad(x).to_vector<float>(), (std::vector<float>{4, 60}));
  EXPECT_THROW(backward(z, tensor<float>({1, 10}, {2})), ShapeError);
}

TEST(Recompute, NothingIsRecordedInsideNoGrad) {
  const NoGrad no_grad;
  const Tensor y = tensor<float>({1}, {1});
  EXPECT_FALSE(recomputed(y, [y] { return y; }).variable());
}

}  // namespace
}  // namespace attend
