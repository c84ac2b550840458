// Observing and changing a forward pass: lens, attribution, patching, steering.
#include "attend/inspect/experiment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "attend/autograd/autograd.h"
#include "attend/inspect/attribute.h"
#include "attend/inspect/lens.h"
#include "attend/inspect/patch.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "inspect/inspect_testing.h"
#include "inspect/logits.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

const std::string kText = "hello there", kOther = "small words";  // as many characters

std::vector<InspectedModel> transformers() {
  return {tiny_inspected("transformer"),
          tiny_inspected("transformer", {{"key_heads", "1"}, {"norm_first", "yes"}, {"output_bias", "yes"}}),
          tiny_inspected("transformer", {{"embedding_norm", "yes"}, {"positions", "learned"}, {"shared", "no"}}),
          tiny_inspected("gpt"),
          tiny_inspected("gpt", {{"positions", "rotary"}, {"rms_norm", "yes"}, {"gated", "yes"}, {"bias", "no"}}),
          tiny_inspected("encoder"),
          tiny_inspected("encoder", {{"labels", "[]"}, {"norm_first", "no"}}),
          tiny_inspected("encoder", {{"pooling", "first"}, {"pooler", "tanh"}}),
          tiny_vision()};
}

std::vector<InspectedModel> all_models() {
  std::vector<InspectedModel> models = transformers();
  models.push_back(tiny_inspected("rnn"));
  models.push_back(tiny_inspected("rnn-attention"));
  models.push_back(tiny_inspected("rnn-attention", {{"score", "general"}}));
  return models;
}

Experiment experiment_of(const InspectedModel& model, const std::string& text = kText) {
  RunOptions options{.text = text, .target = "dlrow olleh"};
  if (model.model->kind() != ModelKind::translation) options.target.reset();
  if (model.model->kind() == ModelKind::pictures) options.picture = motley_picture(9, text == kText ? 12 : 7);
  return {model, options};
}

std::string name_of(const InspectedModel& model) { return model.model->config(); }

std::vector<float> logits_of(const Experiment& experiment, Observer* observer = nullptr) {
  const NoGrad scope;
  return experiment.logits(observer).to_vector<float>();
}

TEST(Experiment, ObservingAndReplacingByTheSameValueChangesNoBit) {
  for (const InspectedModel& model : all_models()) {
    const Experiment experiment = experiment_of(model);
    const std::vector<float> plain = logits_of(experiment);
    ActivationRecorder seen;
    EXPECT_EQ(logits_of(experiment, &seen), plain) << name_of(model);
    EXPECT_FALSE(seen.values.empty());
    ActivationChanger changer;
    for (const auto& [name, value] : seen.values)
      changer.changes.push_back({.point = name, .value = select(value, 0, 0)});
    EXPECT_EQ(logits_of(experiment, &changer), plain) << name_of(model);
  }
}

TEST(Experiment, LogitsOfARunHaveTheSameBits) {
  for (const InspectedModel& model : all_models()) {
    RunOptions options{.text = kText, .target = "dlrow olleh"};
    if (model.model->kind() != ModelKind::translation) options.target.reset();
    if (model.model->kind() == ModelKind::pictures) options.picture = motley_picture(9, 12);
    const attend::Run run = capture(model, options);
    EXPECT_EQ(run_logits(*model.model, run).to_vector<float>(), logits_of(experiment_of(model))) << name_of(model);
  }
}

TEST(Experiment, LayersWithAKnownOutputAreNotComputed) {
  for (const InspectedModel& model : transformers()) {
    const Experiment experiment = experiment_of(model);
    ActivationRecorder seen;
    const std::vector<float> plain = logits_of(experiment, &seen);
    ActivationChanger changer;
    for (const StackPlace& stack : experiment.stacks()) {
      for (int64_t i = 0; i < stack.layers; ++i) changer.known[stack.layer(i)] = seen.at(stack.output(i));
    }
    EXPECT_EQ(logits_of(experiment, &changer), plain) << name_of(model);
    for (const auto& [name, value] : changer.values) EXPECT_EQ(name.find("branch"), std::string::npos) << name;
  }
}

TEST(Experiment, RejectsAReplacementOfAnotherShape) {
  struct Wrong : Observer {
    Tensor replacement(std::string_view what, const Tensor&) override {
      return what == "tokens" ? zeros({1, 2, 3}) : Tensor{};
    }
  } wrong;
  expect_error<ShapeError>([&] { logits_of(experiment_of(tiny_inspected("gpt")), &wrong); },
                           "observer: :tokens is f32 [1, 11, 16], but its replacement is f32 [1, 2, 3]");
}

TEST(Lens, LastLayerIsExactlyTheModelsOutput) {
  for (const InspectedModel& model : transformers()) {
    const Experiment experiment = experiment_of(model);
    const Lens seen = lens(experiment, {.top = 3});
    const NoGrad scope;
    const Tensor logs = log_softmax(experiment.logits());
    ASSERT_EQ(seen.points.size(), static_cast<size_t>(experiment.stacks().back().layers) + 1);
    for (size_t i = 0; i < (experiment.has_labels() ? 1 : seen.places.size()); ++i) {
      const LensPlace& place = seen.places[i];
      ASSERT_EQ(place.cells.size(), seen.points.size());
      const auto row = select(logs, 0, static_cast<int64_t>(i)).to_vector<float>();
      for (const ShownCandidate& one : place.cells.back().top) {
        EXPECT_EQ(one.probability, std::exp(static_cast<double>(row[static_cast<size_t>(one.token.id)])))
            << name_of(model);
      }
      const auto better =
          std::ranges::count_if(row, [&](float value) { return value > row[static_cast<size_t>(place.reference.id)]; });
      EXPECT_EQ(place.cells.back().rank, better);
      if (i + 1 < seen.places.size() && experiment.predicts_next()) {
        EXPECT_TRUE(place.is_true);
      }
    }
    EXPECT_NE(seen.places[0].cells[0].probability, seen.places[0].cells.back().probability) << "layers change nothing";
  }
}

/// A classifier whose labels have probabilities of their own.
TEST(Lens, ProbabilitiesAreThoseOfTheClassifier) {
  const InspectedModel model = tiny_inspected("encoder", {{"scores", "each"}});
  const Lens seen = lens(experiment_of(model), {.top = 3});
  const attend::Run run = capture(*model.model, *model.tokenizer, {.text = kText});
  const LensCell& last = seen.places[0].cells.back();
  double entropy = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double p = run.output.labels[i].score;
    EXPECT_EQ(last.top[i].token.text, run.output.labels[i].name);
    EXPECT_NEAR(last.top[i].probability, p, 1e-6);
    entropy -= p * std::log(p) + (1 - p) * std::log(1 - p);
  }
  EXPECT_NEAR(last.entropy, entropy, 1e-5);
  expect_error<ShapeError>(
      [] {
        lens(experiment_of(tiny_inspected("encoder", {{"scores", "values"}})));
      },
      "lens: the scores of this model are not probabilities");
}

TEST(Lens, NeedsAResidualStream) {
  expect_error<Error>([] { lens(experiment_of(tiny_inspected("rnn"))); },
                      "the lens needs the residual stream of a Transformer; architecture rnn has none");
}

TEST(Attribute, PartsAddUpToTheLogit) {
  for (const InspectedModel& model : transformers()) {
    const Experiment experiment = experiment_of(model);
    for (const Goal& goal : {Goal{}, Goal{.output = 0, .wanted = 1, .contrast = 0}}) {
      const LogitParts parts = logit_parts(experiment, goal);
      double sum = 0, size = 0;
      for (const LogitPart& part : parts.parts) sum += part.value, size += std::abs(part.value);
      EXPECT_NEAR(sum, parts.value, 1e-4) << name_of(model);
      EXPECT_NEAR(parts.remainder, parts.value - sum, 1e-9);
      EXPECT_GT(size, 1e-3);
      const NoGrad scope;
      EXPECT_EQ(parts.value, goal_value(experiment.logits(), parts.goal.output, parts.goal).item());
    }
  }
}

using Vector = std::vector<double>;

/// γ (x − mean x) s, where s is the scale of the norm for the vector `whole`.
Vector frozen_norm(const Norm& norm, const Vector& whole, Vector x) {
  const auto count = static_cast<double>(x.size());
  const double middle = std::accumulate(whole.begin(), whole.end(), 0.0) / count;
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  double square = 0;
  for (const double value : whole) square += (value - middle) * (value - middle);
  const Vector weight = norm.weight.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) / std::sqrt(square / count + norm.eps) * weight[i];
  return x;
}

/// Carries the output of each head of the first decoder layer forward through all norms that follow, in a model with
/// norms after its branches.
TEST(Attribute, HeadsOfALayerPassTheNormsOfAllLaterLayers) {
  const InspectedModel model = tiny_inspected("transformer");
  const auto& own = dynamic_cast<const TransformerModel&>(*model.model);
  ASSERT_FALSE(own.settings.norm_first);
  const Experiment experiment = experiment_of(model);
  const LogitParts parts = logit_parts(experiment);
  ActivationRecorder seen;
  logits_of(experiment, &seen);
  const int64_t place = parts.goal.output;
  const auto row = [&](const std::string& name) {
    return select(select(seen.at(name), 0, 0), 0, place).to_vector<double>();
  };
  const Vector z = row("decoder.layers.0.attention:attended"), out = row("decoder.layers.0.attention:branch");
  const Vector matrix = own.decoder.layers[0].attention.output.weight.to_vector<double>();
  const Vector words = own.head().weight.to_vector<double>();
  const size_t width = out.size();
  for (int64_t head = 0; head < 2; ++head) {
    Vector x(width, 0.0);
    for (size_t i = 0; i < width; ++i) {
      for (size_t k = 8 * static_cast<size_t>(head); k < 8 * static_cast<size_t>(head + 1); ++k)
        x[i] += matrix[i * width + k] * z[k];
    }
    for (size_t layer = 0; layer < own.decoder.layers.size(); ++layer) {
      const std::string path = "decoder.layers." + std::to_string(layer);
      const TransformerDecoderLayer& one = own.decoder.layers[layer];
      x = frozen_norm(one.attention_norm, row(path + ".attention:residual"), x);
      x = frozen_norm(one.cross_attention_norm, row(path + ".cross_attention:residual"), x);
      x = frozen_norm(one.feed_forward_norm, row(path + ".feed_forward:residual"), x);
    }
    double expected = 0;
    for (size_t i = 0; i < width; ++i) expected += x[i] * words[static_cast<size_t>(parts.goal.wanted) * width + i];
    const auto found = std::ranges::find_if(parts.parts, [&](const LogitPart& part) {
      return part.module == "decoder.layers.0.attention" && part.head == head;
    });
    ASSERT_NE(found, parts.parts.end());
    EXPECT_NEAR(found->value, expected, 1e-6);
    EXPECT_GT(std::abs(expected), 1e-6);
  }
}

TEST(Attribute, GradientTimesInputAgreesWithFiniteDifferences) {
  for (const InspectedModel& model : all_models()) {
    const Experiment experiment = experiment_of(model);
    const TokenAttribution shares = attribute_tokens(experiment, {.most_steps = 8});
    ActivationRecorder seen;
    logits_of(experiment, &seen);
    for (const StackPlace& stack : experiment.stacks()) {
      const auto& own = shares.gradient[static_cast<size_t>(stack.side)];
      ASSERT_EQ(std::ssize(own), seen.at(stack.tokens).dim(1));
      for (size_t place : {size_t{0}, own.size() - 1}) {
        const double step = 2e-3;
        const auto value_at = [&](double strength) {
          ActivationChanger changer;
          changer.changes = {{.point = stack.tokens,
                              .value = select(seen.at(stack.tokens), 0, 0),
                              .is_added = true,
                              .strength = strength,
                              .places = {static_cast<int64_t>(place)}}};
          const NoGrad scope;
          return goal_value(experiment.logits(&changer), shares.goal.output, shares.goal).item();
        };
        const double slope = (value_at(step) - value_at(-step)) / (2 * step);
        EXPECT_NEAR(own[place], slope, 0.02 * std::abs(slope) + 5e-3) << name_of(model) << stack.tokens << place;
      }
    }
  }
}

TEST(Attribute, IntegratedGradientsAreCompleteToOnePercent) {
  for (const InspectedModel& model : all_models()) {
    const Experiment experiment = experiment_of(model);
    const TokenAttribution shares = attribute_tokens(experiment);
    double sum = 0;
    for (const auto& side : shares.integrated) sum = std::accumulate(side.begin(), side.end(), sum);
    const double change = shares.value - shares.baseline;
    EXPECT_LE(shares.error, 0.01) << name_of(model) << " change " << change << " steps " << shares.steps;
    EXPECT_NEAR(sum, change, 0.0101 * std::abs(change)) << name_of(model);
  }
}

/// A model of masked words is asked about its mask, whose word nobody knows.
TEST(Attribute, StartsWithTheMask) {
  const InspectedModel model = tiny_inspected("encoder", {{"labels", "[]"}});
  const std::string mask = model.tokenizer->token(model.tokenizer->special().mask);
  const Experiment masked = experiment_of(model, "ab" + mask + "cd"), plain = experiment_of(model, "abcd");
  const auto text_at = [](const Experiment& experiment, int64_t place) {
    return experiment.sides()[0].tokens[static_cast<size_t>(place)].text;
  };
  const int64_t place = logit_parts(masked).goal.output;
  EXPECT_EQ(text_at(masked, place), mask);
  EXPECT_EQ(masked.true_class(place), -1);
  EXPECT_EQ(text_at(plain, plain.usual_output()), "d");
  EXPECT_GE(plain.true_class(plain.usual_output()), 0);
}

TEST(Attribute, LeavesTheGradientsOfTheModelAlone) {
  const InspectedModel model = tiny_inspected("gpt");
  attribute_tokens(experiment_of(model), {.most_steps = 8});
  for (const auto& [name, tensor] : model.model->parameters()) {
    EXPECT_FALSE(static_cast<bool>(grad(tensor))) << name;
    EXPECT_TRUE(needs_grad(tensor)) << name;
  }
}

TEST(Patch, EverythingGivesTheOtherRunAndNothingChangesNoBit) {
  for (const InspectedModel& model : all_models()) {
    const Experiment own = experiment_of(model), other = experiment_of(model, kOther);
    ASSERT_NE(logits_of(own), logits_of(other)) << name_of(model);
    EXPECT_EQ(patched_logits(own, other, {}).to_vector<float>(), logits_of(own)) << name_of(model);
    std::vector<Patch> all;
    for (const StackPlace& stack : own.stacks()) all.push_back({.point = stack.embedded, .places = {}});
    EXPECT_EQ(patched_logits(own, other, all).to_vector<float>(), logits_of(other)) << name_of(model);
  }
}

TEST(Patch, SweepAgreesWithSinglePatches) {
  for (const InspectedModel& model : all_models()) {
    const Experiment own = experiment_of(model), other = experiment_of(model, kOther);
    const Goal goal{.output = -1, .wanted = 1, .contrast = 0};
    int64_t reported = 0;
    const PatchResult result =
        patch_sweep(own, other, {.goal = goal, .kinds = {}, .on_step = [&](int64_t, int64_t) { ++reported; }});
    int64_t count = 0;
    for (const PatchMap& map : result.maps) {
      count += std::ssize(map.points) * map.columns;
      for (size_t row = 0; row < map.points.size(); row += 2) {
        const int64_t column = map.columns - 1;
        Patch patch{.point = map.points[row], .places = {}};
        map.kind == PatchKind::head ? void(patch.head = column) : patch.places.push_back(column);
        const double single = goal_value(patched_logits(own, other, {patch}), result.goal.output, result.goal).item();
        EXPECT_EQ(map.values[row][static_cast<size_t>(column)], single) << name_of(model) << map.points[row];
      }
    }
    EXPECT_EQ(reported, count);
  }
}

/// Before the first difference of two texts, a causal model computes the same bits: those patches need no run.
TEST(Patch, APatchWithTheSameBitsNeedsNoRun) {
  const InspectedModel model = tiny_inspected("gpt");
  const Experiment own = experiment_of(model), other = experiment_of(model, "hello theme");
  const PatchResult result = patch_sweep(own, other, {.goal = {.wanted = 1, .contrast = 0}, .kinds = {}});
  ASSERT_NE(result.value, result.other);
  int64_t changed = 0;
  for (const PatchMap& map : result.maps) {
    if (map.kind == PatchKind::head) continue;
    for (size_t row = 0; row < map.points.size(); ++row) {
      for (int64_t place = 0; place < map.columns; ++place) {
        const double value = map.values[row][static_cast<size_t>(place)];
        const Patch patch{.point = map.points[row], .places = {place}};
        EXPECT_EQ(value, goal_value(patched_logits(own, other, {patch}), result.goal.output, result.goal).item());
        EXPECT_TRUE(place >= 9 || value == result.value);
        changed += value != result.value;
      }
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(Patch, ReportsTheCellsSoFar) {
  const InspectedModel model = tiny_inspected("gpt");
  size_t before = 0;
  PatchOptions options{.goal = {.wanted = 1, .contrast = 0}, .kinds = {PatchKind::residual, PatchKind::head}};
  options.on_partial = [&](const PatchResult& part) {
    size_t cells = 0;
    for (const PatchMap& map : part.maps) {
      for (const auto& row : map.values) cells += row.size();
    }
    EXPECT_EQ(cells, ++before);
  };
  const PatchResult result = patch_sweep(experiment_of(model), experiment_of(model, kOther), options);
  EXPECT_EQ(before, result.maps[0].points.size() * 11 + result.maps[1].points.size() * 2);
}

/// Texts that end alike are compared at the last output whose best words differ.
TEST(Patch, StudiesTheLastDifferenceByDefault) {
  const InspectedModel model = tiny_inspected("gpt");
  const Experiment own = experiment_of(model), other = experiment_of(model, "jello there");
  const Tensor mine = own.logits(), theirs = other.logits();
  const auto best = [](const Tensor& logits, int64_t output) {
    const auto row = select(logits, 0, output).to_vector<float>();
    return std::ranges::max_element(row) - row.begin();
  };
  const Goal goal = patch_sweep(own, other, {.goal = {}, .kinds = {PatchKind::head}}).goal;
  ASSERT_LT(goal.output, own.usual_output());
  EXPECT_NE(goal.wanted, goal.contrast);
  EXPECT_EQ(goal.wanted, best(theirs, goal.output));
  EXPECT_EQ(goal.contrast, best(mine, goal.output));
  for (int64_t output = goal.output + 1; output < own.outputs(); ++output)
    EXPECT_EQ(best(mine, output), best(theirs, output)) << output;
}

TEST(Patch, NamesWhatDoesNotFit) {
  const InspectedModel model = tiny_inspected("gpt");
  expect_error<ShapeError>([&] { patch_sweep(experiment_of(model), experiment_of(model, "short")); },
                           "patch: the text has 11 tokens, but that of the other run has 5; choose texts with the same "
                           "number of tokens");
  expect_error<ShapeError>(
      [&] {
        patch_sweep(experiment_of(model), experiment_of(model, kOther),
                    {.goal = {.wanted = 1, .contrast = 0}, .kinds = {PatchKind::head}, .most_runs = 3});
      },
      "patch: 8 patches, but at most 3 are allowed; use a shorter text or fewer kinds");
}

TEST(Steer, AddsTheDirectionBetweenTwoTexts) {
  for (const char* architecture : {"gpt", "transformer", "encoder"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const std::string stack = architecture == std::string("transformer") ? "decoder" : "stack";
    const auto run_with = [&](const std::string& text, std::vector<Steering> steer) {
      RunOptions options{.text = text, .target = "dlrow"};
      options.steer = std::move(steer);
      return capture(*model.model, *model.tokenizer, options);
    };
    const auto value = [&](const attend::Run& run, const std::string& name) {
      for (const auto& [known, tensor] : run.values) {
        if (known == name) return tensor.to_vector<double>();
      }
      ADD_FAILURE() << name;
      return std::vector<double>{};
    };
    const std::string point = stack + ".layers.0:output";
    const attend::Run plain = run_with(kText, {}), none = run_with(kText, {{point, "yes", "no", 0}}),
                      moved = run_with(kText, {{point, "yes", "no", 3}}),
                      back = run_with(kText, {{point, "no", "yes", -3}});
    EXPECT_EQ(value(none, point), value(plain, point));
    const auto before = value(plain, point), after = value(moved, point), same = value(back, point);
    const size_t width = 16, rows = before.size() / width;
    double most = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const double step = after[i] - before[i];
      most = std::max(most, std::abs(step));
      EXPECT_NEAR(step, after[i % width] - before[i % width], 1e-4);  // the same at every place
      EXPECT_NEAR(after[i], same[i], 1e-4);
    }
    EXPECT_GT(rows, 1u);
    EXPECT_GT(most, 0.01) << architecture;
    EXPECT_EQ(moved.steer.size(), 1u);
    EXPECT_EQ(value(moved, point + "_unsteered"), before);
  }
}

TEST(Steer, RefusesWhatTheModelOnlyReports) {
  const auto steered = [](const char* architecture, const std::string& point) {
    RunOptions options{.text = kText, .target = "dlrow"};
    options.steer = {{point, "yes", "no", 3}};
    const InspectedModel model = tiny_inspected(architecture);
    return capture(*model.model, *model.tokenizer, options);
  };
  for (const char* point : {":states", "attention:queries"}) {
    expect_error<ShapeError>([&] { steered("rnn-attention", point); },
                             "steer: the model only reports '" + std::string(point) +
                                 "', so a change of it has no effect; choose another activation");
  }
  const InspectedModel model = tiny_inspected("rnn-attention");
  const attend::Run plain = tiny_run(model, {.text = kText, .target = "dlrow"});
  for (const char* point : {"encoder:states", ":outputs"}) {
    EXPECT_NE(steered("rnn-attention", point).output.rows[2][0].logit, plain.output.rows[2][0].logit) << point;
  }
}

}  // namespace
}  // namespace attend::testing
