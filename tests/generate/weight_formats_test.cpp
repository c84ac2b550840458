// Whole models with bf16 and int8 weights.
#include "attend/nn/weight_formats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attend/generate/search.h"
#include "attend/models/gpt.h"
#include "generate/tiny_models.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::tiny_model;

/// Text that can be learned in part: tokens follow a rule, but every fourth is random.
Tensor ruled_ids(int64_t rows, int64_t length, int64_t words, uint64_t seed) {
  std::vector<int64_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t last = 0;
    for (int64_t i = 0; i < length; ++i) {
      const auto draw = philox(seed, static_cast<uint64_t>(r * length + i), 0)[0];
      last = i % 4 == 0 ? draw % static_cast<uint32_t>(words) : (last * 3 + 1) % words;
      ids.push_back(last);
    }
  }
  return tensor(ids, {rows, length});
}

Tensor loss_of(const LanguageModel& model, const Tensor& ids) {
  const int64_t last = ids.dim(1) - 1;
  const Tensor read = ids.as_strided({ids.dim(0), last}, ids.strides(), 0).clone();
  const Tensor next = ids.as_strided({ids.dim(0), last}, ids.strides(), 1).clone();
  return model.head().loss(model.hidden(read), next);
}

double perplexity(const LanguageModel& model, const Tensor& ids) {
  const NoGrad scope;
  return std::exp(loss_of(model, ids).item());
}

std::unique_ptr<Model> trained_model() {
  constexpr int64_t kWords = 40;
  std::unique_ptr<Model> model = tiny_model("gpt", kWords, {{"dim", "64"}, {"dropout", "0"}});
  const auto& language = dynamic_cast<const LanguageModel&>(*model);
  Adam adam(model->parameters(), {.lr = 3e-3});
  for (uint64_t step = 0; step < 150; ++step) {
    backward(loss_of(language, ruled_ids(16, 33, kWords, step + 1)));
    adam.step();
    for (const auto& [name, parameter] : model->parameters()) zero_grad(parameter);
  }
  return model;
}

TEST(WeightFormats, PerplexityOfATrainedModelHardlyChanges) {
  const Tensor ids = ruled_ids(64, 33, 40, 999);
  const std::unique_ptr<Model> exact = trained_model();
  const double before = perplexity(dynamic_cast<const LanguageModel&>(*exact), ids);
  EXPECT_LT(before, 10) << "it has learned the rule: chance is 40";
  for (const auto& [format, share] : {std::pair{WeightFormat::bf16, 0.01}, {WeightFormat::int8, 0.02}}) {
    const std::unique_ptr<Model> model = trained_model();
    set_weight_format(*model, format);
    const double after = perplexity(dynamic_cast<const LanguageModel&>(*model), ids);
    EXPECT_NE(after, before);
    EXPECT_NEAR(after, before, share * before) << name_of(format);
  }
}

TEST(WeightFormats, EveryMatrixIsStoredOnce) {
  for (const std::string architecture : {"gpt", "transformer", "encoder", "rnn", "rnn-attention"}) {
    const std::unique_ptr<Model> model = tiny_model(architecture, 30);
    set_weight_format(*model, WeightFormat::int8);
    int64_t reduced = 0;
    for (const auto& [name, tensor] : model->parameters()) {
      reduced += is_reduced(tensor) ? 1 : 0;
      const bool is_matrix = tensor.rank() == 2 && !name.starts_with("positions") &&
                             !name.starts_with("source_positions") && !name.starts_with("target_positions") &&
                             name.find(".forward.") == std::string::npos &&
                             name.find(".backward.") == std::string::npos;
      EXPECT_EQ(is_reduced(tensor), is_matrix) << architecture << ' ' << name;
    }
    EXPECT_EQ(reduced, std::ssize(model->matrices())) << architecture;
  }
}

TEST(WeightFormats, AnUntiedOutputMatrixIsConvertedToo) {
  const auto expect_reduced = [](Model& model, const std::string& name) {
    set_weight_format(model, WeightFormat::bf16);
    int found = 0;
    for (const auto& [known, tensor] : model.parameters()) found += known == name && is_reduced(tensor) ? 1 : 0;
    EXPECT_EQ(found, 1) << name;
  };
  expect_reduced(*tiny_model("transformer", 30, {{"tied", "false"}}), "output.weight");
  expect_reduced(*tiny_model("encoder", 30, {{"tied", "false"}, {"masked_head", "true"}}), "masked_output");
}

TEST(WeightFormats, TiedMatricesStayTied) {
  const Tensor shared = ones({4, 3});
  Tensor head = shared, table = shared, other = ones({4, 3});
  set_weight_format({&head, &table, &other}, WeightFormat::int8);
  EXPECT_EQ(head.storage(), table.storage());
  EXPECT_NE(head.storage(), other.storage());
  EXPECT_TRUE(is_reduced(other));
}

/// Steps with a cache give the same logits as one pass over the whole text.
TEST(WeightFormats, CachedStepsGiveTheSameLogits) {
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) {
    const std::unique_ptr<Model> model = tiny_model("gpt", 30);
    set_weight_format(*model, format);
    const auto& language = dynamic_cast<const LanguageModel&>(*model);
    const Tensor ids = ruled_ids(3, 20, 30, 5);
    const NoGrad scope;
    const auto whole = language.head().logits(language.hidden(ids)).to_vector<double>();
    const auto decoding = language.start();
    for (int64_t i = 0; i < 20; ++i) {
      const Tensor step = ids.as_strided({3, 1}, {20, 1}, i).clone();
      const auto logits = decoding->step(step).to_vector<double>();
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t word = 0; word < 30; ++word) {
          EXPECT_NEAR(logits[static_cast<size_t>(row * 30 + word)],
                      whole[static_cast<size_t>((row * 20 + i) * 30 + word)], 0.05);
        }
      }
    }
  }
}

/// Token types are an embedding too, and are added even if no types are given.
TEST(WeightFormats, AnEncoderWithTypesReadsWithoutThem) {
  const NoGrad scope;
  const Tensor ids = ruled_ids(2, 9, 30, 5);
  const auto exact =
      dynamic_cast<const EncoderModel&>(*tiny_model("encoder", 30, {{"types", "2"}})).hidden({.ids = ids});
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) {
    const std::unique_ptr<Model> model = tiny_model("encoder", 30, {{"types", "2"}});
    set_weight_format(*model, format);
    const Tensor reduced = dynamic_cast<const EncoderModel&>(*model).hidden({.ids = ids});
    testing::expect_close(reduced, exact.to_vector<double>(), 0.1);
  }
}

TEST(WeightFormats, AModelWithoutFormatsThrows) {
  struct Plain final : Model {
    std::string architecture() const override { return "plain"; }
    ModelKind kind() const override { return ModelKind::language; }
    std::string config() const override { return "{}"; }
    std::vector<NamedTensor> parameters() const override { return {}; }
    void visit_parameters(const ParameterVisitor&) override {}
    int64_t vocab_size() const override { return 0; }
    int64_t dim() const override { return 0; }
    int64_t context() const override { return 0; }
    Positions position_kind() const override { return Positions::none; }
  };
  Plain model;
  set_weight_format(model, WeightFormat::f32);
  testing::expect_error<Error>([&] { set_weight_format(model, WeightFormat::int8); },
                               "architecture plain does not support bf16 or int8 weights");
}

}  // namespace
}  // namespace attend
