#include "attend/inspect/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "attend/autograd/autograd.h"
#include "attend/generate/translate.h"
#include "attend/inspect/arrays.h"
#include "attend/inspect/heads.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "inspect/inspect_testing.h"
#include "inspect/json.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

const std::string kText = "hello there, world", kTarget = "dlrow olleh";

std::vector<InspectedModel> all_models() {
  return {tiny_inspected("transformer"),
          tiny_inspected("transformer", {{"key_heads", "1"}, {"norm_first", "yes"}}),
          tiny_inspected("gpt"),
          tiny_inspected("gpt", {{"positions", "alibi"}}),
          tiny_inspected("gpt", {{"positions", "rotary"}}),
          tiny_inspected("encoder"),
          tiny_inspected("rnn-attention"),
          tiny_inspected("rnn-attention", {{"score", "general"}}),
          tiny_inspected("rnn")};
}

attend::Run run_of(const InspectedModel& model, RunOptions options = {}) {
  options.text = kText;
  options.target = kTarget;
  return capture(*model.model, *model.tokenizer, options);
}

const Tensor* value(const attend::Run& run, const std::string& name) {
  for (const auto& [known, tensor] : run.values) {
    if (known == name) return &tensor;
  }
  return nullptr;
}

TEST(Run, WeightsTimesValuesAreTheContextOfThePass) {
  for (const InspectedModel& model : all_models()) {
    const attend::Run run = run_of(model);
    for (size_t a = 0; a < run.attention.size(); ++a) {
      const RunAttention& attention = run.attention[a];
      const Tensor* attended = value(run, attention.trace.path + ":attended");
      if (!attended) continue;  // a recurrent decoder
      const auto expected = attended->to_vector<float>();
      for (int64_t head = 0; head < attention.heads(); ++head) {
        const std::string place = std::to_string(a) + "/" + std::to_string(head);
        const Array weights = run_array(run, "weights/" + place), v = run_array(run, "v/" + place);
        const int64_t keys = weights.shape[1], width = v.shape[1];
        for (int64_t q = 0; q < weights.shape[0]; ++q) {
          for (int64_t d = 0; d < width; ++d) {
            double sum = 0;
            for (int64_t k = 0; k < keys; ++k) {
              sum += static_cast<double>(weights.values[static_cast<size_t>(q * keys + k)]) *
                     static_cast<double>(v.values[static_cast<size_t>(k * width + d)]);
            }
            const auto at = static_cast<size_t>((q * attention.heads() + head) * width + d);
            ASSERT_NEAR(sum, static_cast<double>(expected[at]), 1e-5)
                << model.model->architecture() << " " << attention.trace.path;
          }
        }
      }
    }
  }
}

/// Softmax of the scores is the weights, for every kind of score and mask.
TEST(Run, SoftmaxOfScoresGivesTheWeights) {
  for (const InspectedModel& model : all_models()) {
    const attend::Run run = run_of(model);
    for (size_t a = 0; a < run.attention.size(); ++a) {
      for (int64_t head = 0; head < run.attention[a].heads(); ++head) {
        const std::string place = std::to_string(a) + "/" + std::to_string(head);
        const Array weights = run_array(run, "weights/" + place), scores = run_array(run, "scores/" + place);
        const auto keys = static_cast<size_t>(weights.shape[1]);
        for (size_t row = 0; row < static_cast<size_t>(weights.shape[0]); ++row) {
          double sum = 0;
          for (size_t k = 0; k < keys; ++k) sum += std::exp(static_cast<double>(scores.values[row * keys + k]));
          for (size_t k = 0; k < keys; ++k) {
            ASSERT_NEAR(std::exp(static_cast<double>(scores.values[row * keys + k])) / sum,
                        static_cast<double>(weights.values[row * keys + k]), 1e-5)
                << model.model->architecture() << " " << run.attention[a].trace.path;
          }
        }
      }
    }
  }
}

TEST(Run, ScoresFollowFromQueryAndKey) {
  for (const InspectedModel& model : all_models()) {
    if (model.model->config().find("alibi") != std::string::npos) continue;  // its scores have a bias in addition
    const attend::Run run = run_of(model);
    for (size_t a = 0; a < run.attention.size(); ++a) {
      const std::string place = std::to_string(a) + "/0";
      const Array q = run_array(run, "q/" + place), k = run_array(run, "k/" + place);
      const Array scores = run_array(run, "scores/" + place);
      const int64_t width = q.shape[1];
      std::vector<float> additive;
      if (run.attention[a].additive) additive = run_array(run, "additive/" + std::to_string(a)).values;
      double expected = 0;  // of query 1 and key 0
      for (int64_t d = 0; d < width; ++d) {
        const auto x = static_cast<double>(q.values[static_cast<size_t>(width + d)]);
        const auto y = static_cast<double>(k.values[static_cast<size_t>(d)]);
        expected += additive.empty() ? run.attention[a].scale() * x * y
                                     : static_cast<double>(additive[static_cast<size_t>(d)]) * std::tanh(x + y);
      }
      EXPECT_NEAR(expected, static_cast<double>(scores.values[static_cast<size_t>(scores.shape[1])]), 1e-4)
          << model.model->architecture();
    }
  }
}

TEST(Run, HasTheWeightsOfAnOrdinaryPass) {
  const InspectedModel model = tiny_inspected("rnn-attention");
  const auto& pair = dynamic_cast<const PairModel&>(*model.model);
  const attend::Run run = run_of(model);
  AttentionRecorder recorder;
  const NoGrad scope;
  std::vector<int64_t> source, target;
  for (const ShownToken& token : run.sides[0].tokens) source.push_back(token.id);
  for (const ShownToken& token : run.sides[1].tokens) target.push_back(token.id);
  pair.hidden({.source = tensor(source, {1, std::ssize(source)}),
               .source_lengths = {},
               .target = tensor(target, {1, std::ssize(target)})},
              {.observer = &recorder});
  ASSERT_EQ(run.attention.size(), 1u);
  EXPECT_EQ(run.attention[0].stack, "rnn");
  EXPECT_TRUE(run.attention[0].is_cross);
  EXPECT_EQ(run.attention[0].weights({}, {0, run.attention[0].queries()}).to_vector<float>(),
            pair.cross_weights(recorder.traces)[0].to_vector<float>());
}

TEST(Run, GivesTheStackLayerAndSidesOfEachAttention) {
  const attend::Run run = run_of(tiny_inspected("transformer", {{"encoder_layers", "1"}, {"decoder_layers", "2"}}));
  ASSERT_EQ(run.attention.size(), 5u);
  EXPECT_EQ(run.attention[0].trace.path, "encoder.layers.0.attention");
  EXPECT_EQ(run.attention[0].stack, "encoder");
  EXPECT_FALSE(run.attention[0].is_cross);
  EXPECT_EQ(run.attention[4].trace.path, "decoder.layers.1.cross_attention");
  EXPECT_EQ(run.attention[4].stack, "decoder");
  EXPECT_EQ(run.attention[4].layer, 1);
  EXPECT_TRUE(run.attention[4].is_cross);
  EXPECT_EQ(run.attention[4].query_side, 1);
  EXPECT_EQ(run.attention[4].key_side, 0);
  EXPECT_TRUE(run.attention[1].trace.options.causal);
  EXPECT_EQ(run.sides[0].name, "source");
  EXPECT_EQ(run.sides[1].tokens[0].kind, TokenKind::special);
  EXPECT_EQ(run.output.kind, RunOutput::Kind::tokens);
  EXPECT_EQ(run.output.side, 1);
  EXPECT_EQ(std::ssize(run.output.rows), run.attention[4].queries());
  EXPECT_EQ(run.output.rows[0].size(), 5u);
  EXPECT_GE(run.output.rows[0][0].probability, run.output.rows[0][1].probability);
}

TEST(Run, TranslatesIfNoTargetIsGiven) {
  const InspectedModel model = tiny_inspected("transformer");
  const attend::Run run = capture(*model.model, *model.tokenizer, {.text = "ab"});
  const auto& pair = dynamic_cast<const PairModel&>(*model.model);
  EXPECT_EQ(run.sides[1].text, translate(pair, *model.tokenizer, std::vector<std::string>{"ab"})[0].best[0].text);
  EXPECT_EQ(std::ssize(run.sides[1].tokens), run.attention.back().queries());
}

TEST(Run, LabelsHaveProbabilitiesInDescendingOrder) {
  const attend::Run run = run_of(tiny_inspected("encoder"));
  ASSERT_EQ(run.output.kind, RunOutput::Kind::labels);
  ASSERT_EQ(run.output.labels.size(), 3u);
  double sum = 0;
  for (const ShownLabel& one : run.output.labels) sum += one.score;
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_GE(run.output.labels[0].score, run.output.labels[2].score);
}

/// A model of masked words predicts the token at each place.
TEST(Run, MaskedWordsAreTheOutputOfAnEncoderWithoutLabels) {
  const InspectedModel model = tiny_inspected("encoder", {{"labels", "[]"}});
  const attend::Run run = run_of(model);
  ASSERT_EQ(run.output.kind, RunOutput::Kind::tokens);
  EXPECT_TRUE(run.output.is_masked);
  EXPECT_EQ(run.arithmetic.masked_activation, "gelu");
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model.model);
  std::vector<int64_t> ids;
  for (const ShownToken& token : run.sides[0].tokens) ids.push_back(token.id);
  const NoGrad scope;
  const Tensor hidden = encoder.masked_hidden({.ids = tensor<int64_t>(ids, {1, std::ssize(ids)}), .lengths = {}});
  const Tensor logits = encoder.masked_head().logits(select(hidden, 0, 0));
  ASSERT_EQ(run.output.rows.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto all = select(logits, 0, static_cast<int64_t>(i)).to_vector<double>();
    const ShownCandidate& best = run.output.rows[i].front();
    EXPECT_EQ(best.logit, std::ranges::max(all));
    EXPECT_EQ(best.logit, all[static_cast<size_t>(best.token.id)]);
  }
  EXPECT_EQ(json_text(run_json(run)).find("\"masked\":true") != std::string::npos, true);
  EXPECT_EQ(tiny_run(tiny_inspected("encoder", {{"labels", "[]"}, {"masked_head", "no"}}), {.text = "ab"}).output.kind,
            RunOutput::Kind::none);
}

TEST(Run, LogitsGiveTheProbabilities) {
  for (const char* architecture : {"transformer", "gpt", "rnn-attention"}) {
    const attend::Run run = run_of(tiny_inspected(architecture));
    ASSERT_EQ(run.output.totals.size(), run.output.rows.size());
    for (size_t i = 0; i < run.output.rows.size(); ++i) {
      for (const ShownCandidate& one : run.output.rows[i]) {
        EXPECT_NEAR(one.probability, std::exp(one.logit - run.output.totals[i]), 1e-5) << architecture;
      }
    }
  }
}

TEST(Run, RecordsItsEquations) {
  const attend::Run gpt = run_of(tiny_inspected("gpt", {{"positions", "rotary"}, {"rms_norm", "true"}}));
  ASSERT_EQ(gpt.arithmetic.stacks.size(), 1u);
  const StackArithmetic& stack = gpt.arithmetic.stacks[0];
  EXPECT_TRUE(stack.is_norm_first && stack.is_rms && stack.rotary);
  EXPECT_EQ(stack.rotary->frequencies[0], 1);
  EXPECT_EQ(2 * std::ssize(stack.rotary->frequencies), gpt.attention[0].trace.q.dim(3));
  const attend::Run pair = run_of(tiny_inspected("transformer"));
  ASSERT_EQ(pair.arithmetic.stacks.size(), 2u);
  EXPECT_GT(pair.arithmetic.stacks[0].embedding_scale, 1);
  EXPECT_EQ(run_array(pair, "parameters/encoder.layers.0.attention_norm.weight").shape, Shape{16});
  expect_error<ShapeError>([&] { run_array(pair, "parameters/nothing"); },
                           "inspect: the run has no parameter 'nothing'");
}

TEST(Run, AHeadSwitchedOffChangesTheOutputAndTheLayersAfterIt) {
  for (const char* architecture : {"transformer", "gpt", "encoder"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const attend::Run whole = run_of(model),
                      without = run_of(model, {.text = {}, .heads = {{.attention = 0, .head = 1}}});
    EXPECT_EQ(without.attention[0].off, std::vector<int64_t>{1}) << architecture;
    EXPECT_EQ(run_array(whole, "weights/0/1").values, run_array(without, "weights/0/1").values);
    EXPECT_NE(run_array(whole, "weights/1/0").values, run_array(without, "weights/1/0").values);
    const auto first = [](const attend::Run& run) {
      return run.output.kind == RunOutput::Kind::labels ? run.output.labels[0].score
                                                        : run.output.rows.back()[0].probability;
    };
    EXPECT_NE(first(whole), first(without)) << architecture;
  }
}

TEST(Run, AnAblatedTokenGetsNoWeight) {
  for (const char* architecture : {"transformer", "gpt", "rnn-attention"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const attend::Run run = run_of(model, {.text = {}, .tokens = {{.side = 0, .index = 2}}});
    for (size_t a = 0; a < run.attention.size(); ++a) {
      if (run.attention[a].key_side != 0) continue;
      const Array weights = run_array(run, "weights/" + std::to_string(a) + "/0");
      for (int64_t row = 0; row < weights.shape[0]; ++row) {
        EXPECT_EQ(weights.values[static_cast<size_t>(row * weights.shape[1] + 2)], 0) << architecture;
      }
    }
  }
}

TEST(Run, RefusesInvalidOptions) {
  const InspectedModel model = tiny_inspected("gpt");
  const auto& [m, t] = std::pair<const Model&, const Tokenizer&>(*model.model, *model.tokenizer);
  const std::string long_text(65, 'x');
  expect_error<ShapeError>([&] { capture(m, t, {.text = long_text}); },
                           "inspect: the text has 65 tokens, but the model's context is 64");
  expect_error<ShapeError>([&] { capture(m, t, {.text = "abcdef", .longest = 4}); },
                           "inspect: the text has 6 tokens; at most 4 can be inspected");
  expect_error<ShapeError>(
      [&] {
        capture(m, t, {.text = "ab", .heads = {{9, 0}}});
      },
      "ablation: there is no attention 9; the model has 4, counted from 0");
  expect_error<ShapeError>(
      [&] {
        capture(m, t, {.text = "ab", .heads = {{0, 9}}});
      },
      "ablation: there is no head 9; the layer has 2, counted from 0");
  expect_error<ShapeError>(
      [&] {
        capture(m, t, {.text = "ab", .tokens = {{0, 2}}});
      },
      "ablation: there is no token 2 in the text; it has 2, counted from 0");
  expect_error<ShapeError>(
      [&] {
        capture(m, t, {.text = "ab", .tokens = {{3, 0}}});
      },
      "ablation: there is no side 3; there are 1, counted from 0");
}

TEST(Run, AnEncoderReadsPairs) {
  const InspectedModel model = tiny_inspected("encoder");
  const attend::Run run = capture(*model.model, *model.tokenizer, {.text = "ab", .second = "cd"});
  EXPECT_EQ(run.sides[0].text, "ab cd");
  std::string texts;
  for (const ShownToken& token : run.sides[0].tokens) {
    if (token.kind != TokenKind::text) continue;
    texts += token.text;
    EXPECT_EQ(token.word, token.text < "c" ? 0 : 1);
    if (token.text == "c") {
      EXPECT_EQ(token.start, 3);
    }
  }
  EXPECT_EQ(texts, "abcd");
  EXPECT_EQ(std::ssize(run.sides[0].tokens), run.attention[0].keys());
  const InspectedModel other = tiny_inspected("gpt");
  expect_error<ShapeError>([&] { capture(*other.model, *other.tokenizer, {.text = "ab", .second = "cd"}); },
                           "inspect: only encoders take a second text, not architecture gpt");
}

TEST(Run, AlignmentEqualsThatOfAlign) {
  for (const char* architecture : {"transformer", "rnn-attention"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const auto& pair = dynamic_cast<const PairModel&>(*model.model);
    const attend::Run run = run_of(model);
    for (const AlignOptions& options : {AlignOptions{}, AlignOptions{.layer = 0, .head = 0}}) {
      const WordAlignment expected =
          align(pair, *model.tokenizer, std::vector{kText}, std::vector{kTarget}, options)[0];
      const WordAlignment got = alignment_of(run, *model.tokenizer, options);
      EXPECT_EQ(got.source, expected.source);
      EXPECT_EQ(got.target, expected.target);
      EXPECT_EQ(got.links, expected.links);
      for (size_t i = 0; i < got.weights.size(); ++i) {
        for (size_t j = 0; j < got.weights[i].size(); ++j) EXPECT_NEAR(got.weights[i][j], expected.weights[i][j], 1e-6);
      }
    }
  }
  const InspectedModel plain = tiny_inspected("rnn");
  expect_error<Error>([&] { alignment_of(run_of(plain), *plain.tokenizer); },
                      "align: this model has no cross-attention, so there is no alignment");
}

/// An untrained model generates up to its limit, and the start token comes before that.
TEST(Capture, TheGeneratedTargetFitsTheContext) {
  const InspectedModel model = tiny_inspected("transformer", {{"context", "12"}});
  const attend::Run run = capture(model, {.text = "hello"});
  EXPECT_LE(run.sides[1].tokens.size(), 12u);
}

TEST(Capture, TheGeneratedTargetHasALimit) {
  const InspectedModel model = tiny_inspected("transformer");
  const auto written = [&](int64_t most) {
    return std::ssize(capture(model, {.text = "hello there", .most_written = most}).sides[1].tokens) - 1;
  };
  EXPECT_GT(written(0), 3);
  EXPECT_LE(written(3), 3);
  EXPECT_GE(written(3), 1);
}

}  // namespace
}  // namespace attend::testing
