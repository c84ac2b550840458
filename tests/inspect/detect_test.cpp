// Detectors and circuits of heads.
#include "attend/inspect/detect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/inspect/circuits.h"
#include "attend/models/gpt.h"
#include "attend/optim/adam.h"
#include "attend/tensor/creation.h"
#include "inspect/inspect_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

constexpr int64_t kLetters = 16;

/// A tokenizer of the letters a to p.
std::shared_ptr<const Tokenizer> letters() {
  bool is_given = false;
  return train_tokenizer(
      [&]() -> std::optional<std::string> {
        return std::exchange(is_given, true) ? std::nullopt : std::optional<std::string>("abcdefghijklmnop");
      },
      {.kind = TokenizerKind::characters, .vocabulary = 100, .min_count = 1});
}

/// A language model that learned to repeat: random letters, then the same letters again. The length varies, so that a
/// fixed distance does not solve the task. The window of the first layer leaves its heads the token itself and the
/// token before, which an induction head in the second layer needs to know; with it, a few hundred steps suffice.
InspectedModel copying_model() {
  const auto tokenizer = letters();
  Rng rng{7};
  std::shared_ptr<Gpt> gpt = Gpt::create({.vocab_size = tokenizer->size(),
                                          .context = 64,
                                          .dim = 32,
                                          .heads = 2,
                                          .layers = 2,
                                          .ffn_dim = 32,
                                          .positions = Positions::rotary,
                                          .dropout = 0,
                                          .window = 2,
                                          .layer_kinds = {"window", "full"}},
                                         rng);
  for (auto& [name, tensor] : gpt->parameters()) {
    if (name != "embedding.weight") continue;
    for (float& value : tensor.data<float>()) value *= 10;
  }
  Adam adam(gpt->parameters(), {.lr = 5e-3});
  const int64_t batch = 32, first = tokenizer->size() - kLetters;
  for (uint64_t step = 0; step < 400; ++step) {
    const auto length = static_cast<int64_t>(5 + philox(1, step, 9)[0] % 8);
    std::vector<int64_t> ids, labels;
    for (int64_t row = 0; row < batch; ++row) {
      std::vector<int64_t> text;
      for (int64_t i = 0; i < length; ++i) {
        text.push_back(first + philox(2, step, static_cast<uint64_t>(row * 64 + i))[0] % kLetters);
      }
      for (int64_t i = 0; i < length; ++i) text.push_back(text[static_cast<size_t>(i)]);
      for (int64_t i = 0; i + 1 < 2 * length; ++i) {
        ids.push_back(text[static_cast<size_t>(i)]);
        labels.push_back(i + 1 < length ? -100 : text[static_cast<size_t>(i + 1)]);
      }
    }
    const Shape shape{batch, 2 * length - 1};
    backward(gpt->head().loss(gpt->hidden(tensor(ids, shape)), tensor(labels, shape)));
    adam.step();
    for (const auto& [name, parameter] : gpt->parameters()) zero_grad(parameter);
  }
  return {.name = "copying", .model = gpt, .tokenizer = tokenizer, .example = "abc", .example_target = {}};
}

TEST(Detect, FindsInductionHeadsOfAModelThatLearnedToCopy) {
  const InspectedModel model = copying_model();
  const attend::Run run = capture(model, {.text = "abcdefgabcdefg"});
  const Detection found = detect_heads(model, run, {.length = 10});
  ASSERT_EQ(found.heads.size(), 4u);
  EXPECT_GE(found.probe_tokens, 20);
  double induction = 0, first_layer = 0, previous = 0;
  bool is_named = false;
  for (const HeadScores& head : found.heads) {
    const double score = head.probe[static_cast<size_t>(HeadKind::induction)].value();
    (head.attention == 0 ? first_layer : induction) = std::max(head.attention == 0 ? first_layer : induction, score);
    previous = std::max(previous, head.probe[static_cast<size_t>(HeadKind::previous)].value());
    is_named = is_named || std::ranges::find(head.kinds, HeadKind::induction) != head.kinds.end();
    // The text repeats too: the head does the same there.
    EXPECT_TRUE(head.text[static_cast<size_t>(HeadKind::induction)].has_value());
  }
  EXPECT_GT(induction, 0.5);
  EXPECT_LT(first_layer, 0.3);  // one layer cannot know the token before a key
  EXPECT_GT(previous, 0.3);     // the first layer tells it
  EXPECT_TRUE(is_named);
  const Detection untrained = detect_heads(tiny_inspected("gpt"), capture(tiny_inspected("gpt"), {.text = "abcabc"}));
  for (const HeadScores& head : untrained.heads) {
    EXPECT_LT(head.probe[static_cast<size_t>(HeadKind::induction)].value(), 0.4);
  }
}

TEST(Detect, ScoresAreMeanWeights) {
  const InspectedModel model = tiny_inspected("gpt");
  const attend::Run run = capture(model, {.text = "ab,ab"});
  const Detection found = detect_heads(model, run, {.threshold = 0});
  for (const HeadScores& head : found.heads) {
    const auto w = run.attention[static_cast<size_t>(head.attention)].weights({head.head}, {0, 5}).to_vector<float>();
    const auto at = [&](size_t query, size_t key) { return static_cast<double>(w[query * 5 + key]); };
    const auto score = [&](HeadKind kind) { return head.text[static_cast<size_t>(kind)].value(); };
    EXPECT_NEAR(score(HeadKind::previous), (at(1, 0) + at(2, 1) + at(3, 2) + at(4, 3)) / 4, 1e-6);
    EXPECT_NEAR(score(HeadKind::duplicate), (at(3, 0) + at(4, 1)) / 2, 1e-6);
    EXPECT_NEAR(score(HeadKind::induction), (at(3, 1) + at(4, 2)) / 2, 1e-6);
    EXPECT_NEAR(score(HeadKind::first), (at(1, 0) + at(2, 0) + at(3, 0) + at(4, 0)) / 4, 1e-6);
    EXPECT_NEAR(score(HeadKind::separator), (at(3, 2) + at(4, 2)) / 2, 1e-6);  // not what the comma gives to itself
    EXPECT_FALSE(head.text[static_cast<size_t>(HeadKind::alignment)].has_value());
    EXPECT_GE(head.kinds.size(), 5u);
  }
}

TEST(Detect, RunsOnEveryKindOfModel) {
  for (const char* name : {"transformer", "encoder", "rnn-attention", "rnn"}) {
    const InspectedModel model = tiny_inspected(name);
    const attend::Run run = tiny_run(model, {.text = "a b, c"});
    const Detection found = detect_heads(model, run);
    size_t heads = 0;
    for (const RunAttention& attention : run.attention) heads += static_cast<size_t>(attention.heads());
    EXPECT_EQ(found.heads.size(), heads) << name;
    for (const HeadScores& head : found.heads) {
      for (const auto& score : head.text) {
        if (score) {
          EXPECT_TRUE(*score >= 0 && *score <= 1.0001) << name;
        }
      }
    }
  }
  RunOptions options{.text = "x"};
  options.picture = motley_picture(9, 12);
  EXPECT_EQ(detect_heads(tiny_vision(), capture(tiny_vision(), options)).probe_tokens, 0);
}

TEST(Circuits, AgreeWithTheProductsOfTheMatrices) {
  const InspectedModel model = tiny_inspected("gpt", {{"rms_norm", "yes"}, {"bias", "no"}});
  const auto& gpt = dynamic_cast<const Gpt&>(*model.model);
  const int32_t token = 20;
  const int64_t head = 1, layer = 1;
  const HeadCircuits found =
      head_circuits(model, {.module = "stack.layers.1.attention", .head = head, .tokens = {token}, .top = 4});
  ASSERT_EQ(found.tokens.size(), 1u);
  const auto& own = gpt.layers.layers[static_cast<size_t>(layer)];
  const auto table = gpt.embedding.weight.to_vector<double>(), value = own.attention.value.weight.to_vector<double>();
  const auto output = own.attention.output.weight.to_vector<double>(),
             query = own.attention.query.weight.to_vector<double>();
  const auto key = own.attention.key.weight.to_vector<double>();
  const auto last = gpt.layers.norm->weight.to_vector<double>(), norm = own.attention_norm.weight.to_vector<double>();
  const size_t dim = 16, width = 8, first = static_cast<size_t>(head) * width;
  const auto read = [&](int64_t id) {
    std::vector<double> x(dim);
    double square = 0;
    for (size_t i = 0; i < dim; ++i) x[i] = table[static_cast<size_t>(id) * dim + i], square += x[i] * x[i];
    for (size_t i = 0; i < dim; ++i) x[i] *= norm[i] / std::sqrt(square / dim + own.attention_norm.eps);
    return x;
  };
  const auto part = [&](const std::vector<double>& matrix, const std::vector<double>& x) {
    std::vector<double> y(width, 0.0);
    for (size_t i = 0; i < width; ++i) {
      for (size_t k = 0; k < dim; ++k) y[i] += matrix[(first + i) * dim + k] * x[k];
    }
    return y;
  };
  const auto v = part(value, read(token)), q = part(query, read(token));
  for (const TokenNeighbour& one : found.tokens[0].raises) {
    double logit = 0;
    for (size_t i = 0; i < dim; ++i) {
      double written = 0;
      for (size_t k = 0; k < width; ++k) written += output[i * dim + first + k] * v[k];
      logit += written * last[i] * table[static_cast<size_t>(one.token.id) * dim + i];
    }
    EXPECT_NEAR(one.value, logit, 1e-4 * std::abs(logit) + 1e-5);
  }
  for (const TokenNeighbour& one : found.tokens[0].seeks) {
    const auto k = part(key, read(one.token.id));
    double score = 0;
    for (size_t i = 0; i < width; ++i) score += q[i] * k[i];
    EXPECT_NEAR(one.value, score / std::sqrt(8.0), 1e-4 * std::abs(score) + 1e-5);
  }
  EXPECT_GE(found.tokens[0].raises[0].value, found.tokens[0].raises[3].value);
  EXPECT_LE(found.tokens[0].lowers[0].value, found.tokens[0].lowers[3].value);
  EXPECT_TRUE(found.copying.has_value());
}

TEST(Circuits, NameWhatDoesNotExist) {
  const InspectedModel model = tiny_inspected("gpt");
  expect_error<ShapeError>([&] { head_circuits(model, {.module = "stack.layers.9.attention"}); },
                           "circuits: there is no attention module 'stack.layers.9.attention'");
  expect_error<ShapeError>([&] { head_circuits(model, {.module = "stack.layers.0.attention", .head = 2}); },
                           "circuits: there is no head 2; the module has 2, counted from 0");
  expect_error<Error>([&] { head_circuits(tiny_vision(), {.module = "stack.layers.0.attention"}); },
                      "circuits: the model does not read words");
  expect_error<ShapeError>([&] { head_circuits(tiny_inspected("rnn-attention"), {.module = "attention"}); },
                           "circuits need a Transformer; architecture rnn-attention is none");
}

}  // namespace
}  // namespace attend::testing
