// BERT, DistilBERT and RoBERTa with each of their heads, against naive loops in f64.

#include "attend/models/encoder.h"
#include "attend/models/registry.h"
#include "hub/hub_files.h"
#include "hub/naive_bert.h"

namespace attend {
namespace {

using testing::bert_files;
using testing::complaint_about;
using testing::Filler;
using testing::HubFiles;
using testing::TemporaryFolder;

constexpr int64_t kWords = 17, kDim = testing::kEncoderDim, kHidden = testing::kEncoderHidden,
                  kContext = testing::kEncoderContext;

void expect_near(const Tensor& ours, const naive::Matrix& expected) {
  std::vector<double> all;
  for (const naive::Row& row : expected) all.insert(all.end(), row.begin(), row.end());
  testing::expect_close(ours, all, 2e-5);
}

LoadedModel load(const HubFiles& files, const TemporaryFolder& folder) {
  files.save(folder.path());
  return load_hub_model(folder.path());
}
const Encoder& encoder_of(const LoadedModel& loaded) { return dynamic_cast<const Encoder&>(*loaded.model); }

Tensor ids_of(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {1, std::ssize(ids)}); }

const std::vector<int64_t> kText{0, 5, 9, 13, 2}, kTypes{0, 0, 0, 1, 1};

TEST(Bert, ClassifiesPairsByTypes) {
  HubFiles files = bert_files("bert", "bert.");
  files.config["architectures"] = {"BertForSequenceClassification"};
  files.config["id2label"] = {{"0", "no"}, {"1", "yes"}, {"2", "也许"}};
  Filler fill(files, kDim, "bert.");
  fill.both("pooler.dense", kDim, kDim);
  fill.set_prefix("");
  fill.both("classifier", 3, kDim);
  const TemporaryFolder folder;
  const LoadedModel loaded = load(files, folder);
  EXPECT_TRUE(loaded.unused.empty());
  const Encoder& model = encoder_of(loaded);
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"no", "yes", "也许"}));
  const naive::Weights w(files.tensors);
  const auto hidden = naive::bert(files, "bert.", kText, kTypes, 0);
  expect_near(model.hidden({.ids = ids_of(kText), .lengths = {}, .types = ids_of(kTypes)}), hidden);
  const auto pooled =
      naive::map(naive::linear(w, "bert.pooler.dense", {hidden[0]}), [](double x) { return std::tanh(x); });
  expect_near(model.pooled({.ids = ids_of(kText), .lengths = {}, .types = ids_of(kTypes)}), pooled);
  expect_near(model.classify({.ids = ids_of(kText), .lengths = {}, .types = ids_of(kTypes)}),
              naive::linear(w, "classifier", pooled));
}

TEST(Bert, PredictsMaskedWords) {
  for (const bool tied : {true, false}) {
    HubFiles files = bert_files("bert", "bert.");
    files.config["architectures"] = {"BertForMaskedLM"};
    files.config["tie_word_embeddings"] = tied;
    Filler fill(files, kDim, "cls.predictions.");
    fill.both("transform.dense", kDim, kDim);
    fill.norm("transform.LayerNorm");
    fill.add("bias", {kWords});
    if (!tied) fill.add("decoder.weight", {kWords, kDim});
    const TemporaryFolder folder;
    const LoadedModel loaded = load(files, folder);
    const Encoder& model = encoder_of(loaded);
    EXPECT_FALSE(model.pooler.has_value());
    EXPECT_TRUE(model.labels().empty());
    const naive::Weights w(files.tensors);
    auto x = naive::map(naive::linear(w, "cls.predictions.transform.dense", naive::bert(files, "bert.", kText, {}, 0)),
                        naive::gelu);
    x = naive::layer_norm(w, "cls.predictions.transform.LayerNorm", x, 1e-5);
    const auto output = w.matrix(tied ? "bert.embeddings.word_embeddings.weight" : "cls.predictions.decoder.weight");
    const auto bias = w.vector("cls.predictions.bias");
    naive::Matrix logits;
    for (const auto& row : x) {
      naive::Row out;
      for (size_t i = 0; i < output.size(); ++i) out.push_back(naive::dot(output[i], row) + bias[i]);
      logits.push_back(out);
    }
    expect_near(model.masked_head().logits(model.masked_hidden({.ids = ids_of(kText), .lengths = {}})), logits);
  }
}

TEST(Bert, OldNamesOfNormsAndNoPrefix) {
  HubFiles files = bert_files("bert", "");
  const auto expected = naive::bert(files, "", kText, {}, 0);
  std::map<std::string, Tensor> old;
  for (const auto& [name, tensor] : files.tensors) {
    const size_t at = name.find("LayerNorm.");
    old[at == std::string::npos ? name : name.substr(0, at + 10) + (name.ends_with("weight") ? "gamma" : "beta")] =
        tensor;
  }
  files.tensors = old;
  const TemporaryFolder folder;
  const LoadedModel loaded = load(files, folder);
  EXPECT_TRUE(loaded.unused.empty());
  expect_near(encoder_of(loaded).hidden({.ids = ids_of(kText), .lengths = {}}), expected);
}

TEST(Bert, RefusesWhatItDoesNotSupport) {
  const auto said = [](const std::string& key, const nlohmann::json& value) {
    HubFiles files = bert_files("bert", "bert.");
    files.config[key] = value;
    const TemporaryFolder folder;
    files.save(folder.path());
    return complaint_about(folder.path());
  };
  EXPECT_EQ(said("is_decoder", true), "config.json: 'is_decoder': true is not supported, only false");
  EXPECT_EQ(said("position_embedding_type", "relative_key"),
            "config.json: 'position_embedding_type': \"relative_key\" is not supported, only \"absolute\"");
  EXPECT_NE(said("hidden_act", "mish").find("mish"), std::string::npos);
  EXPECT_NE(said("num_attention_heads", 3).find("not divisible by heads 3"), std::string::npos);
  EXPECT_NE(said("hidden_size", -8).find("hidden_size"), std::string::npos);
  EXPECT_NE(said("num_hidden_layers", 3).find("encoder.layer.2."), std::string::npos);
  EXPECT_NE(said("vocab_size", 18).find("word_embeddings.weight"), std::string::npos);
}

TEST(Bert, LabelsMustFitTheClassifier) {
  HubFiles files = bert_files("bert", "bert.");
  files.config["architectures"] = {"BertForSequenceClassification"};
  Filler fill(files, kDim, "bert.");
  fill.both("pooler.dense", kDim, kDim);
  fill.set_prefix("");
  fill.both("classifier", 2, kDim);
  const TemporaryFolder folder;
  EXPECT_EQ(encoder_of(load(files, folder)).labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  files.config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()), "config.json: 'id2label' names 3 labels, but classifier.weight has 2");
  files.config.erase("id2label");
}

TEST(Bert, LabelsMayBeIndependent) {
  const auto loaded = [](int64_t labels, const char* key, const nlohmann::json& value) {
    HubFiles files = bert_files("bert", "bert.");
    files.config["architectures"] = {"BertForSequenceClassification"};
    files.config[key] = value;
    Filler fill(files, kDim, "bert.");
    fill.both("pooler.dense", kDim, kDim);
    fill.set_prefix("");
    fill.both("classifier", labels, kDim);
    const TemporaryFolder folder;
    return load(files, folder);
  };
  const auto scores = [&](int64_t labels, const char* key, const nlohmann::json& value) {
    const LoadedModel model = loaded(labels, key, value);
    const Encoder& encoder = encoder_of(model);
    const auto numbers = encoder.classify({.ids = ids_of(kText), .lengths = {}});
    const auto given = score_labels(numbers, encoder.label_scores()).to_vector<double>();
    const auto plain = numbers.to_vector<double>();
    EXPECT_EQ(std::ssize(given), labels);
    for (size_t i = 0; i < given.size(); ++i) {
      if (encoder.label_scores() == LabelScores::each) {
        EXPECT_NEAR(given[i], 1 / (1 + std::exp(-plain[i])), 1e-6);
      } else if (encoder.label_scores() == LabelScores::values) {
        EXPECT_EQ(given[i], plain[i]);
      }
    }
    return encoder.label_scores();
  };
  EXPECT_EQ(scores(2, "problem_type", nullptr), LabelScores::shares);
  EXPECT_EQ(scores(2, "problem_type", "single_label_classification"), LabelScores::shares);
  EXPECT_EQ(scores(2, "problem_type", "multi_label_classification"), LabelScores::each);
  EXPECT_EQ(scores(1, "problem_type", nullptr), LabelScores::each);
  EXPECT_EQ(scores(1, "problem_type", "regression"), LabelScores::values);
  EXPECT_EQ(scores(1, "sentence_transformers", {{"activation_fn", "torch.nn.modules.linear.Identity"}}),
            LabelScores::values);
  EXPECT_EQ(scores(1, "sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Sigmoid"}}),
            LabelScores::each);
}

TEST(Roberta, PositionsBeginAfterThePaddingIndex) {
  HubFiles files = bert_files("roberta", "roberta.");
  for (const bool is_said : {true, false}) {
    if (!is_said) files.config.erase("pad_token_id");
    const TemporaryFolder folder;
    const LoadedModel loaded = load(files, folder);
    const Encoder& model = encoder_of(loaded);
    EXPECT_EQ(model.context(), kContext);
    expect_near(model.hidden({.ids = ids_of(kText), .lengths = {}}), naive::bert(files, "roberta.", kText, {}, 2));
  }
}

TEST(Roberta, ClassifiesAndPredictsWords) {
  HubFiles files = bert_files("roberta", "roberta.");
  files.config["architectures"] = {"RobertaForSequenceClassification"};
  Filler fill(files, kDim, "");
  fill.both("classifier.dense", kDim, kDim);
  fill.both("classifier.out_proj", 3, kDim);
  fill.both("lm_head.dense", kDim, kDim);
  fill.norm("lm_head.layer_norm");
  fill.add("lm_head.bias", {kWords});
  const TemporaryFolder folder;
  const LoadedModel loaded = load(files, folder);
  const Encoder& model = encoder_of(loaded);
  const naive::Weights w(files.tensors);
  const auto hidden = naive::bert(files, "roberta.", kText, {}, 2);
  const auto dense =
      naive::map(naive::linear(w, "classifier.dense", {hidden[0]}), [](double x) { return std::tanh(x); });
  expect_near(model.classify({.ids = ids_of(kText), .lengths = {}}), naive::linear(w, "classifier.out_proj", dense));
  auto x = naive::map(naive::linear(w, "lm_head.dense", hidden), naive::gelu);
  x = naive::layer_norm(w, "lm_head.layer_norm", x, 1e-5);
  expect_near(model.masked_hidden({.ids = ids_of(kText), .lengths = {}}), x);
}

TEST(Distilbert, ClassifiesWithAnExtraLayer) {
  HubFiles files;
  files.config = {{"model_type", "distilbert"},
                  {"architectures", {"DistilBertForSequenceClassification"}},
                  {"vocab_size", kWords},
                  {"dim", kDim},
                  {"n_heads", 2},
                  {"n_layers", 1},
                  {"hidden_dim", kHidden},
                  {"max_position_embeddings", kContext}};
  Filler fill(files, kDim, "distilbert.");
  fill.add("embeddings.word_embeddings.weight", {kWords, kDim});
  fill.add("embeddings.position_embeddings.weight", {kContext, kDim});
  fill.norm("embeddings.LayerNorm");
  for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"}) {
    fill.both(std::string("transformer.layer.0.attention.") + part, kDim, kDim);
  }
  fill.norm("transformer.layer.0.sa_layer_norm");
  fill.both("transformer.layer.0.ffn.lin1", kHidden, kDim);
  fill.both("transformer.layer.0.ffn.lin2", kDim, kHidden);
  fill.norm("transformer.layer.0.output_layer_norm");
  fill.set_prefix("");
  fill.both("pre_classifier", kDim, kDim);
  fill.both("classifier", 2, kDim);
  const TemporaryFolder folder;
  const LoadedModel loaded = load(files, folder);
  EXPECT_TRUE(loaded.unused.empty());
  const Encoder& model = encoder_of(loaded);
  const naive::Weights w(files.tensors);
  naive::Matrix first{{}};
  for (const float value : model.hidden({.ids = ids_of(kText), .lengths = {}}).to_vector()) {
    if (first[0].size() < kDim) first[0].push_back(value);
  }
  const auto dense = naive::map(naive::linear(w, "pre_classifier", first), naive::relu);
  expect_near(model.classify({.ids = ids_of(kText), .lengths = {}}), naive::linear(w, "classifier", dense));
}

TEST(Encoders, SavedInOurFormatTheyAreTheSame) {
  HubFiles files = bert_files("bert", "bert.");
  Filler fill(files, kDim, "bert.");
  fill.both("pooler.dense", kDim, kDim);
  const TemporaryFolder folder;
  const LoadedModel theirs = load(files, folder);
  save_model(*theirs.model, folder.file("ours"));
  const auto ours = load_model(folder.file("ours"));
  const TextInputs inputs{.ids = ids_of(kText), .lengths = {}};
  const NoGrad inference;  // products for training may add in another order
  EXPECT_EQ(dynamic_cast<const Encoder&>(*ours).pooled(inputs).to_vector(),
            encoder_of(theirs).pooled(inputs).to_vector());
}

}  // namespace
}  // namespace attend
