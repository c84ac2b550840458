// Every architecture: decoding token by token equals one pass, padding changes nothing, folders round-trip, and a few
// training steps lower the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "attend/autograd/autograd.h"
#include "attend/models/registry.h"
#include "attend/nn/cache.h"
#include "attend/ops/shape.h"
#include "attend/optim/adam.h"
#include "attend/tensor/creation.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

constexpr int64_t kWords = 23;

using Settings = std::map<std::string, std::string>;

std::unique_ptr<Model> tiny(const std::string& architecture, Settings settings = {}) {
  settings["vocab_size"] = std::to_string(kWords);
  settings.try_emplace("dropout", "0.1");
  if (architecture == "encoder") settings["labels"] = R"(["no", "yes", "maybe"])";
  Rng rng{7};
  return create_model(with_settings(preset_config(architecture, "tiny"), settings), rng);
}

Tensor ids(std::vector<int64_t> values, int64_t rows) {
  const auto count = static_cast<int64_t>(values.size());
  return tensor<int64_t>(values, {rows, count / rows});
}

double distance(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  EXPECT_EQ(a.shape(), b.shape());
  double worst = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

struct Variant {
  std::string name, architecture;
  Settings settings;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

class PairModels : public ::testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<Model> model_ = tiny(GetParam().architecture, GetParam().settings);
  const PairModel& pair_ = dynamic_cast<const PairModel&>(*model_);
  PairInputs inputs_{.source = ids({5, 6, 7, 8, 3, 9, 10, 3, 0, 0}, 2),
                     .source_lengths = tensor<int64_t>({5, 3}, {2}),
                     .target = ids({2, 11, 12, 13, 2, 14, 15, 16}, 2)};
};

TEST_P(PairModels, TokenByTokenEqualsOnePass) {
  const Tensor whole = pair_.head().logits(pair_.hidden(inputs_));  // [2, 4, words]
  const auto decoding = pair_.start(inputs_.source, inputs_.source_lengths);
  for (int64_t t = 0; t < 4; ++t) {
    const Tensor logits = decoding->step(slice(inputs_.target, 1, t, t + 1));
    EXPECT_LT(distance(logits, select(whole, 1, t)), 2e-5) << "position " << t;
  }
}

TEST_P(PairModels, RowsOfASentenceAreSelectedAndDropped) {
  const auto decoding = pair_.start(inputs_.source, inputs_.source_lengths);
  decoding->step(ids({2, 2}, 2));
  decoding->spread(2);
  decoding->step(ids({11, 17, 14, 18}, 4));      // hypotheses: (11, 17) of the first sentence, (14, 18) of the second
  decoding->select(std::vector<int64_t>{3, 2});  // drops the first sentence
  const Tensor logits = decoding->step(ids({5, 15}, 2));
  PairInputs expected{.source = slice(inputs_.source, 0, 1, 2),
                      .source_lengths = slice(inputs_.source_lengths, 0, 1, 2),
                      .target = ids({2, 14, 15}, 1)};
  const Tensor whole = pair_.head().logits(pair_.hidden(expected));
  EXPECT_LT(distance(slice(logits, 0, 1, 2), select(whole, 1, 2)), 2e-5);
}

TEST_P(PairModels, RowsMaySpreadBeforeTheFirstTokenOrAfter) {
  const auto before = pair_.start(inputs_.source, inputs_.source_lengths);
  before->spread(1);  // one copy of each row: nothing changes
  before->spread(3);
  const Tensor wide = before->step(ids({2, 2, 2, 2, 2, 2}, 6));
  const auto after = pair_.start(inputs_.source, inputs_.source_lengths);
  const Tensor narrow = after->step(ids({2, 2}, 2));
  after->spread(3);
  EXPECT_LT(distance(wide, select_rows(narrow, repeated_rows(2, 3))), 2e-5);
  const Tensor words = ids({11, 12, 13, 14, 15, 16}, 6);
  EXPECT_LT(distance(before->step(words), after->step(words)), 2e-5);
}

TEST_P(PairModels, PaddingOfTheSourceChangesNothing) {
  const Tensor both = pair_.hidden(inputs_);
  const Tensor alone = pair_.hidden({.source = slice(slice(inputs_.source, 0, 1, 2), 1, 0, 3),
                                     .source_lengths = {},
                                     .target = slice(inputs_.target, 0, 1, 2)});
  EXPECT_LT(distance(slice(both, 0, 1, 2), alone), 2e-5);
}

TEST_P(PairModels, CrossWeightsAddUpToOne) {
  AttentionRecorder recorder;
  pair_.hidden(inputs_, {.observer = &recorder});
  const std::vector<Tensor> weights = pair_.cross_weights(recorder.traces);
  if (GetParam().architecture == "rnn") {
    EXPECT_TRUE(weights.empty());
    return;
  }
  ASSERT_FALSE(weights.empty());
  for (const Tensor& layer : weights) {
    ASSERT_EQ(layer.dim(0), 2);
    ASSERT_EQ(layer.dim(2), 4);
    ASSERT_EQ(layer.dim(3), 5);
    const auto values = layer.to_vector<float>();
    for (size_t row = 0; row < values.size(); row += 5) {
      double total = 0;
      for (size_t j = 0; j < 5; ++j) total += values[row + j];
      EXPECT_NEAR(total, 1, 1e-5);
    }
  }
}

TEST_P(PairModels, LearnsAPair) {
  Adam adam(model_->parameters(), {.lr = 1e-3});
  const Tensor labels = ids({11, 12, 13, 3, 14, 15, 16, 3}, 2);
  double first = 0, last = 0;
  Rng rng{1};
  for (int step = 0; step < 100; ++step) {
    const Tensor loss = pair_.head().loss(pair_.hidden(inputs_, {.rng = &rng}), labels);
    if (step == 0) first = loss.item();
    last = loss.item();
    backward(loss);
    for (const auto& [name, parameter] : model_->parameters()) {
      ASSERT_TRUE(grad(parameter)) << name << " gets no gradient";
    }
    adam.step();
    for (const auto& [name, parameter] : model_->parameters()) zero_grad(parameter);
  }
  EXPECT_GT(first, 2);
  EXPECT_LT(last, 0.35);
}

TEST_P(PairModels, FolderRoundTrip) {
  const testing::TemporaryFolder folder;
  save_model(*model_, folder.file("m"));
  const auto read = load_model(folder.file("m"));
  read->to(default_device());
  EXPECT_EQ(read->config(), model_->config());
  EXPECT_EQ(distance(dynamic_cast<const PairModel&>(*read).hidden(inputs_), pair_.hidden(inputs_)), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Pair, PairModels,
    ::testing::Values(Variant{"rnn", "rnn", {}}, Variant{"lstm", "rnn", {{"cell", "lstm"}, {"layers", "2"}}},
                      Variant{"plain_one_way", "rnn", {{"cell", "tanh"}, {"bidirectional", "no"}}},
                      Variant{"bahdanau", "rnn-attention", {}},
                      Variant{"bahdanau_lstm", "rnn-attention", {{"cell", "lstm"}, {"layers", "2"}}},
                      Variant{"luong_general", "rnn-attention", {{"score", "general"}}},
                      Variant{"luong_dot", "rnn-attention", {{"score", "dot"}}},
                      Variant{"transformer", "transformer", {}},
                      Variant{"modern",
                              "transformer",
                              {{"norm_first", "yes"},
                               {"rms_norm", "yes"},
                               {"positions", "rotary"},
                               {"gated", "yes"},
                               {"activation", "silu"},
                               {"key_heads", "2"}}},
                      Variant{"learned", "transformer", {{"positions", "learned"}, {"activation", "gelu"}}},
                      Variant{"alibi", "transformer", {{"positions", "alibi"}}},
                      Variant{"marian",
                              "transformer",
                              {{"activation", "silu"},
                               {"wave_halves", "yes"},
                               {"output_bias", "yes"},
                               {"decoder_heads", "2"},
                               {"decoder_ffn_dim", "96"}}},
                      Variant{"bart",
                              "transformer",
                              {{"positions", "learned"},
                               {"activation", "gelu"},
                               {"scale_embedding", "no"},
                               {"embedding_norm", "yes"},
                               {"shared", "no"}}},
                      Variant{"t5",
                              "transformer",
                              {{"positions", "relative"},
                               {"buckets", "8"},
                               {"max_distance", "20"},
                               {"norm_first", "yes"},
                               {"rms_norm", "yes"},
                               {"bias", "no"},
                               {"scale_scores", "no"},
                               {"scale_embedding", "no"},
                               {"scale_output", "yes"},
                               {"head_dim", "24"}}},
                      Variant{"t5_gated",
                              "transformer",
                              {{"positions", "relative"},
                               {"norm_first", "yes"},
                               {"rms_norm", "yes"},
                               {"bias", "no"},
                               {"gated", "yes"},
                               {"activation", "gelu_tanh"},
                               {"scale_scores", "no"},
                               {"tied", "no"}}}),
    [](const auto& variant) { return variant.param.name; });

class GptModels : public ::testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<Model> model_ = tiny("gpt", GetParam().settings);
  const LanguageModel& gpt_ = dynamic_cast<const LanguageModel&>(*model_);
};

TEST_P(GptModels, TokenByTokenEqualsOnePass) {
  const Tensor text = ids({4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 2);
  const Tensor whole = gpt_.head().logits(gpt_.hidden(text));
  const auto decoding = gpt_.start();
  EXPECT_LT(distance(decoding->step(slice(text, 1, 0, 3)), select(whole, 1, 2)), 2e-5);
  EXPECT_LT(distance(decoding->step(slice(text, 1, 3, 4)), select(whole, 1, 3)), 2e-5);
  EXPECT_LT(distance(decoding->step(slice(text, 1, 4, 6)), select(whole, 1, 5)), 2e-5);
}

TEST_P(GptModels, PromptsOfDifferentLengthsInOneBatch) {
  const auto decoding = gpt_.start();
  decoding->step(ids({4, 5, 6, 7, 8, 9, 0, 0}, 2), tensor<int64_t>({4, 2}, {2}));
  decoding->step(ids({10, 11}, 2));
  const Tensor logits = decoding->step(ids({12, 13}, 2));
  const Tensor first = gpt_.head().logits(gpt_.hidden(ids({4, 5, 6, 7, 10, 12}, 1)));
  const Tensor second = gpt_.head().logits(gpt_.hidden(ids({8, 9, 11, 13}, 1)));
  EXPECT_LT(distance(slice(logits, 0, 0, 1), select(first, 1, 5)), 2e-5);
  EXPECT_LT(distance(slice(logits, 0, 1, 2), select(second, 1, 3)), 2e-5);
  decoding->select(std::vector<int64_t>{1, 1, 0});
  const Tensor more = decoding->step(ids({14, 15, 16}, 3));
  const Tensor third = gpt_.head().logits(gpt_.hidden(ids({8, 9, 11, 13, 15}, 1)));
  EXPECT_LT(distance(slice(more, 0, 1, 2), select(third, 1, 4)), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Gpt, GptModels,
                         ::testing::Values(Variant{"learned", "gpt", {}},
                                           Variant{"sinusoidal", "gpt", {{"positions", "sinusoidal"}}},
                                           Variant{"llama",
                                                   "gpt",
                                                   {{"positions", "rotary"},
                                                    {"rms_norm", "yes"},
                                                    {"gated", "yes"},
                                                    {"activation", "silu"},
                                                    {"bias", "no"},
                                                    {"key_heads", "2"}}},
                                           Variant{"alibi", "gpt", {{"positions", "alibi"}}}),
                         [](const auto& variant) { return variant.param.name; });

TEST(Gpt, RefusesMoreThanItsContext) {
  const auto model = tiny("gpt", {{"context", "4"}});
  const auto& gpt = dynamic_cast<const LanguageModel&>(*model);
  const auto decoding = gpt.start();
  decoding->step(ids({1, 2, 3, 4}, 1));
  EXPECT_THROW(decoding->step(ids({5}, 1)), ShapeError);
}

TEST(Encoder, PaddingChangesNothing) {
  for (const char* pooling : {"mean", "first"}) {
    const auto model = tiny("encoder", {{"pooling", pooling}});
    const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
    const Tensor text = ids({2, 5, 6, 3, 2, 7, 3, 0}, 2);
    const Tensor both = encoder.classify({.ids = text, .lengths = tensor<int64_t>({4, 3}, {2})});
    EXPECT_EQ(both.shape(), (Shape{2, 3}));
    const Tensor alone = encoder.classify({.ids = ids({2, 7, 3}, 1), .lengths = {}});
    EXPECT_LT(distance(slice(both, 0, 1, 2), alone), 1e-5);
  }
}

const std::vector<Settings>& encoder_variants() {
  static const std::vector<Settings> all{
      {},
      {{"norm_first", "no"}, {"types", "2"}, {"pooling", "first"}, {"pooler", "tanh"}, {"eps", "1e-12"}},
      {{"positions", "rotary"}, {"pooler", "relu"}, {"tied", "no"}},
      {{"positions", "sinusoidal"}, {"masked_head", "no"}},
      {{"positions", "alibi"}}};
  return all;
}

TEST(Encoder, PackedAndPaddedBatchesAgree) {
  const Tensor text = ids({2, 5, 6, 8, 3, 2, 7, 3, 0, 0, 4, 5, 9, 3, 0}, 3), lengths = tensor<int64_t>({5, 3, 4}, {3});
  for (const Settings& settings : encoder_variants()) {
    const auto model = tiny("encoder", settings);
    const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
    TextInputs inputs{.ids = text, .lengths = lengths};
    if (settings.contains("types")) inputs.types = ids({0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0}, 3);
    AttentionRecorder recorder;  // with an observer the batch is padded
    const Tensor padded = encoder.hidden(inputs, {.observer = &recorder}), packed = encoder.hidden(inputs);
    EXPECT_EQ(recorder.traces[0].q.dim(0), 3);
    const auto counts = lengths.to_vector<int64_t>();
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t length = counts[static_cast<size_t>(row)];
      const Tensor a = slice(select(padded, 0, row), 0, 0, length), b = slice(select(packed, 0, row), 0, 0, length);
      EXPECT_LT(distance(a, b), 2e-5) << "row " << row;
      for (const float value : slice(select(packed, 0, row), 0, length, 5).to_vector()) EXPECT_EQ(value, 0);
    }
    EXPECT_LT(distance(encoder.classify(inputs), encoder.classify(inputs, {.observer = &recorder})), 2e-5);
  }
}

TEST(Encoder, AllSettingsLearnAndRoundTrip) {
  for (const Settings& settings : encoder_variants()) {
    const auto model = tiny("encoder", settings);
    const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
    TextInputs inputs{.ids = ids({2, 5, 6, 3, 2, 7, 3, 0}, 2), .lengths = tensor<int64_t>({4, 3}, {2})};
    if (settings.contains("types")) inputs.types = ids({0, 0, 1, 1, 0, 1, 1, 1}, 2);
    Rng rng{1};
    backward(cross_entropy(encoder.classify(inputs, {.rng = &rng}), tensor<int64_t>({2, 0}, {2})));
    if (!settings.contains("masked_head")) {
      backward(encoder.masked_head().loss(encoder.masked_hidden(inputs, {.rng = &rng}), inputs.ids));
    }
    for (const auto& [name, parameter] : model->parameters()) EXPECT_TRUE(grad(parameter)) << name;
    const testing::TemporaryFolder folder;
    save_model(*model, folder.file("m"));
    const auto read = load_model(folder.file("m"));
    read->to(default_device());
    EXPECT_EQ(read->config(), model->config());
    EXPECT_EQ(distance(dynamic_cast<const EncoderModel&>(*read).classify(inputs), encoder.classify(inputs)), 0);
  }
}

TEST(Encoder, TypesAndPoolersChangeTheResult) {
  const auto model = tiny("encoder", {{"types", "2"}, {"pooler", "tanh"}});
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
  TextInputs inputs{.ids = ids({2, 5, 6, 3}, 1), .lengths = {}};
  const Tensor first = encoder.classify(inputs);
  inputs.types = ids({0, 0, 0, 0}, 1);
  EXPECT_EQ(distance(encoder.classify(inputs), first), 0);
  inputs.types = ids({0, 0, 1, 1}, 1);
  EXPECT_GT(distance(encoder.classify(inputs), first), 1e-6);
}

TEST(Encoder, UnsupportedOperationsThrow) {
  const auto unmasked = tiny("encoder", {{"masked_head", "no"}});
  const TextInputs inputs{.ids = ids({2, 5, 6, 3}, 1), .lengths = {}};
  const auto message = [&](const std::function<void(const EncoderModel&)>& action) -> std::string {
    try {
      action(dynamic_cast<const EncoderModel&>(*unmasked));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected = "encoder: this model has no layers for masked words";
  EXPECT_EQ(message([&](const EncoderModel& m) { m.masked_hidden(inputs); }), expected);
  EXPECT_EQ(message([](const EncoderModel& m) { m.masked_head(); }), expected);
  EXPECT_THROW(tiny("encoder", {{"positions", "relative"}}), ShapeError);
}

TEST(Encoder, LearnsLabelsAndMaskedWords) {
  const auto model = tiny("encoder");
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
  Adam adam(model->parameters(), {.lr = 1e-3});
  const TextInputs inputs{.ids = ids({2, 5, 6, 3, 2, 7, 8, 3, 2, 9, 10, 3}, 3), .lengths = {}};
  const Tensor labels = tensor<int64_t>({2, 0, 1}, {3}),
               words = ids({-100, 5, -100, -100, -100, -100, 8, -100, -100, 9, -100, -100}, 3);
  double loss = 0, masked = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor a = cross_entropy(encoder.classify(inputs), labels);
    const Tensor b = encoder.masked_head().loss(encoder.masked_hidden(inputs), words);
    loss = a.item(), masked = b.item();
    backward(a);
    backward(b);
    adam.step();
    for (const auto& [name, parameter] : model->parameters()) zero_grad(parameter);
  }
  EXPECT_LT(loss, 0.1);
  EXPECT_LT(masked, 0.1);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Registry, ErrorsNameTheSetting) {
  const auto create = [](const std::string& architecture, const Settings& settings) {
    return message_of([&] { tiny(architecture, settings); });
  };
  EXPECT_NE(create("transformer", {{"heads", "3"}}).find("dim 128 is not divisible by heads 3"), std::string::npos);
  EXPECT_NE(create("transformer", {{"legs", "3"}}).find("'legs' is not a setting of architecture"), std::string::npos);
  EXPECT_NE(create("gpt", {{"positions", "everywhere"}}).find("'positions' must be one of none, sinusoidal"),
            std::string::npos);
  EXPECT_NE(create("gpt", {{"dim", "-4"}}).find("'dim' must be a whole number"), std::string::npos);
  EXPECT_NE(create("gpt", {{"dropout", "2"}}).find("'dropout' must be a number from 0 to 0.99"), std::string::npos);
  EXPECT_NE(create("rnn", {{"bidirectional", "perhaps"}}).find("'bidirectional' must be true or false"),
            std::string::npos);
  EXPECT_NE(message_of([] { preset_config("lstm", "tiny"); }).find("expected one of rnn, rnn-attention"),
            std::string::npos);
  EXPECT_NE(message_of([] { preset_config("gpt", "huge"); }).find("tiny, small or base"), std::string::npos);
}

TEST(Registry, DamagedFoldersAreRefusedByName) {
  const testing::TemporaryFolder folder;
  EXPECT_NE(message_of([&] { load_model(folder.file("none")); }).find("no such model folder"), std::string::npos);
  const std::string path = folder.file("m");
  save_model(*tiny("gpt"), path);
  const auto spoil = [&](const std::string& file, const std::string& content) {
    save_model(*tiny("gpt"), path);
    std::ofstream(path + "/" + file) << content;
    return message_of([&] { load_model(path); });
  };
  EXPECT_NE(spoil("config.json", "{").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(
      spoil("config.json", R"({"architecture":"gpt","vocab_size":24,"dim":128,"heads":4,"layers":4,"context":128})")
          .find("embedding.weight"),
      std::string::npos);
  const auto absurd = [&](const std::string& setting) {
    return spoil("config.json",
                 R"({"architecture":"gpt","vocab_size":23,"dim":128,"heads":4,"context":128,)" + setting + "}");
  };
  EXPECT_NE(absurd(R"("layers":4000000000)").find("layers"), std::string::npos);
  EXPECT_NE(absurd(R"("layers":900)").find("describes matrices"), std::string::npos);
  EXPECT_NE(spoil("config.json", R"({"architecture":"gpt","vocab_size":16000000})").find("describes matrices"),
            std::string::npos);
  EXPECT_NE(absurd(R"("layers":4,"ffn_dim":1000000)").find("describes matrices"), std::string::npos);
  EXPECT_NE(spoil("config.json", R"({"architecture":"gpt","vocab_size":23,"dim":1000000,"heads":4,"layers":4})")
                .find("describes matrices"),
            std::string::npos);
  EXPECT_NE(spoil("config.json",
                  R"({"architecture":"gpt","vocab_size":23,"dim":128,"heads":4,"layers":4,"context":16000000})")
                .find("describes"),
            std::string::npos);
  EXPECT_NE(spoil("model.safetensors", "short").find("model.safetensors"), std::string::npos);
  std::filesystem::remove(path + "/config.json");
  EXPECT_NE(message_of([&] { load_model(path); }).find("has no config.json"), std::string::npos);
}

}  // namespace
}  // namespace attend
