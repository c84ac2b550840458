// Masked words in BERT, RoBERTa and DistilBERT, against naive loops in f64.

#include "attend/generate/fill_masks.h"

#include <algorithm>
#include <numeric>

#include "attend/models/encoder.h"
#include "hub/naive_bert.h"

namespace attend {
namespace {

using testing::bert_files;
using testing::bert_masked;
using testing::bert_words;
using testing::Filler;
using testing::HubFiles;
using testing::kEncoderDim;
using testing::TemporaryFolder;

struct Loaded {
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  const EncoderModel& encoder() const { return dynamic_cast<const EncoderModel&>(*model); }
  std::vector<FilledText> fill(const std::vector<std::string>& texts, const FillOptions& options = {}) const {
    return fill_masks(encoder(), *tokenizer, texts, options);
  }
};

Loaded load(const std::string& folder) { return {load_hub_model(folder).model, load_tokenizer(folder)}; }

/// The softmax of a head's output for one vector: dense, gelu, norm, the embedding matrix and a bias.
naive::Row shares(const naive::Weights& w, const naive::Row& vector, const std::string& dense, const std::string& norm,
                  const std::string& bias, const std::string& table) {
  auto x = naive::map(naive::linear(w, dense, {vector}), naive::gelu);
  x = naive::layer_norm(w, norm, x, 1e-5);
  naive::Row result;
  const naive::Matrix words = w.matrix(table);
  const naive::Row biases = w.vector(bias);
  for (size_t i = 0; i < words.size(); ++i) result.push_back(std::exp(naive::dot(words[i], x[0]) + biases[i]));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

/// Expects the candidates to be the largest of the expected probabilities, in descending order.
void expect_candidates(const FilledMask& mask, const naive::Row& expected, const Tokenizer& tokenizer) {
  std::vector<size_t> order(expected.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t i) { return expected[i]; });
  ASSERT_FALSE(mask.candidates.empty());
  for (size_t i = 0; i < mask.candidates.size(); ++i) {
    const MaskCandidate& one = mask.candidates[i];
    EXPECT_EQ(one.id, static_cast<int32_t>(order[i]));
    EXPECT_EQ(one.token, tokenizer.token(one.id));
    EXPECT_NEAR(one.probability, expected[order[i]], 2e-5);
  }
}

std::vector<int64_t> ids_of(const std::vector<std::string>& words) {
  std::vector<int64_t> ids;
  for (const std::string& word : words) ids.push_back(std::ranges::find(bert_words(), word) - bert_words().begin());
  return ids;
}

class BertFills : public ::testing::Test {
 protected:
  BertFills() {
    files_.save(folder_.path());
    testing::save_bert_words(folder_.path());
    loaded_ = load(folder_.path());
  }
  naive::Row expected(const std::vector<std::string>& words, size_t position) const {
    const naive::Matrix hidden = naive::bert(files_, "bert.", ids_of(words), {}, 0);
    return shares(naive::Weights(files_.tensors), hidden[position], "cls.predictions.transform.dense",
                  "cls.predictions.transform.LayerNorm", "cls.predictions.bias",
                  "bert.embeddings.word_embeddings.weight");
  }

  TemporaryFolder folder_;
  HubFiles files_ = bert_masked(std::ssize(bert_words()), 12);
  Loaded loaded_;
};

TEST_F(BertFills, EveryMaskOfEveryText) {
  const auto results = loaded_.fill({"the [MASK] sat on the [MASK].", "今[MASK]天气很好。", "the cat", ""});
  ASSERT_EQ(results.size(), 4u);
  const std::vector<std::string> english{"[CLS]", "the", "[MASK]", "sat", "on", "the", "[MASK]", ".", "[SEP]"},
      chinese{"[CLS]", "今", "[MASK]", "天", "气", "很", "好", "。", "[SEP]"};
  ASSERT_EQ(results[0].masks.size(), 2u);
  EXPECT_EQ(results[0].tokens, 9);
  for (const size_t i : {0u, 1u}) {
    const size_t position = i == 0 ? 2 : 6;
    EXPECT_EQ(results[0].masks[i].position, static_cast<int64_t>(position));
    EXPECT_EQ(results[0].masks[i].candidates.size(), 5u);
    expect_candidates(results[0].masks[i], expected(english, position), *loaded_.tokenizer);
  }
  ASSERT_EQ(results[1].masks.size(), 1u);
  expect_candidates(results[1].masks[0], expected(chinese, 2), *loaded_.tokenizer);
  EXPECT_TRUE(results[2].masks.empty());
  EXPECT_EQ(results[2].text, "the cat");
  EXPECT_EQ(results[3].tokens, 0);
}

TEST_F(BertFills, WordsAppearInTheTextAsSpelled) {
  const auto result = loaded_.fill({"今[MASK]天气很好。"}, {.top = std::ssize(bert_words())})[0];
  EXPECT_EQ(std::ssize(result.masks[0].candidates), std::ssize(bert_words()));
  double sum = 0;
  for (const MaskCandidate& one : result.masks[0].candidates) {
    sum += one.probability;
    EXPECT_EQ(one.word, one.token);  // also for special tokens, which have no text
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(result.text, "今" + result.masks[0].candidates[0].word + "天气很好。");
}

TEST_F(BertFills, APieceJoinsTheWordBeforeIt) {
  for (float& value : files_.tensors["cls.predictions.bias"].data<float>()) value = -50;
  files_.tensors["cls.predictions.bias"].data<float>()[static_cast<size_t>(ids_of({"##ting"})[0])] = 50;
  files_.save(folder_.path());
  EXPECT_EQ(load(folder_.path()).fill({"the cat sat [MASK] on"})[0].text, "the cat satting on");
}

TEST_F(BertFills, TheBatchChangesNothing) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(i % 3 == 0 ? "the [MASK]" : "on the [MASK] sat the [MASK]");
  const auto together = loaded_.fill(texts), alone = loaded_.fill(texts, {.batch_tokens = 1});
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(together[i].masks.size(), alone[i].masks.size());
    for (size_t m = 0; m < together[i].masks.size(); ++m) {
      EXPECT_EQ(together[i].masks[m].candidates[0].id, alone[i].masks[m].candidates[0].id);
      EXPECT_NEAR(together[i].masks[m].candidates[0].probability, alone[i].masks[m].candidates[0].probability, 1e-6);
    }
  }
}

TEST_F(BertFills, LongTextsAreTruncatedAndOptionsChecked) {
  const auto result = loaded_.fill({"the [MASK] sat on the cat on the dog on the mat on the [MASK]"})[0];
  EXPECT_TRUE(result.is_cut);
  EXPECT_EQ(result.masks.size(), 1u);
  EXPECT_EQ(result.tokens, 12);
  testing::expect_error<ShapeError>([&] { loaded_.fill({"[MASK]"}, {.top = 0}); },
                                    "fill: top must be at least 1, got 0");
  const TemporaryFolder folder;
  testing::bert_classifier(std::ssize(bert_words()), 12).save(folder.path());
  testing::save_bert_words(folder.path());
  testing::expect_error<Error>([&] { load(folder.path()).fill({"[MASK]"}); },
                               "encoder: this model has no layers for masked words");
}

/// RoBERTa's heads have other names, its positions begin after the padding index, and its mask is spelled differently.
TEST(RobertaFills, ItsOwnMask) {
  const std::vector<std::string> corpus{"the quick brown fox", "今天天气很好"};
  size_t next = 0;
  const auto tokenizer = train_tokenizer(
      [&]() -> std::optional<std::string> {
        return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
      },
      {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
  for (const char* type : {"roberta", "xlm-roberta"}) {
    HubFiles files = bert_files("roberta", "roberta.", tokenizer->size(), 12);
    files.config["model_type"] = type;
    Filler fill(files, kEncoderDim, "lm_head.");
    fill.both("dense", kEncoderDim, kEncoderDim);
    fill.norm("layer_norm");
    fill.add("bias", {tokenizer->size()});
    const TemporaryFolder folder;
    files.save(folder.path());
    tokenizer->save(folder.path());
    const Loaded loaded = load(folder.path());
    const auto result = loaded.fill({"今<mask>天气"})[0];
    ASSERT_EQ(result.masks.size(), 1u);
    std::vector<int64_t> ids{2};
    for (const char* word : {"今", "<mask>", "天", "气"}) ids.push_back(tokenizer->find(word).value());
    ids.push_back(3);
    const naive::Matrix hidden = naive::bert(files, "roberta.", ids, {}, 2);
    expect_candidates(result.masks[0],
                      shares(naive::Weights(files.tensors), hidden[2], "lm_head.dense", "lm_head.layer_norm",
                             "lm_head.bias", "roberta.embeddings.word_embeddings.weight"),
                      *tokenizer);
  }
}

/// Our own tokenizers treat names of special tokens as plain text. A mask stands for a word and the space before it.
TEST(OwnTokenizersFill, MasksBetweenPieces) {
  for (const TokenizerKind kind : {TokenizerKind::words, TokenizerKind::bpe, TokenizerKind::characters}) {
    int lines = 0;
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> { return lines++ < 20 ? std::optional("the fox sat") : std::nullopt; },
        {.kind = kind, .vocabulary = 300, .min_count = 1});
    HubFiles files = bert_masked(tokenizer->size(), 24);
    const TemporaryFolder folder;
    files.save(folder.path());
    tokenizer->save(folder.path());
    const auto result = load(folder.path()).fill({"the <mask> sat <mask>"})[0];
    const bool is_by_character = kind == TokenizerKind::characters;
    ASSERT_EQ(result.masks.size(), 2u);
    EXPECT_EQ(result.masks[0].position, is_by_character ? 5 : 2);
    EXPECT_EQ(result.masks[1].position, is_by_character ? 11 : 4);
  }
}

/// Compares with the model's logits at the mask, which other tests compare with the reference.
TEST(DistilbertFills, AccordingToItsLogits) {
  const int64_t words = std::ssize(bert_words());
  HubFiles files;
  files.config = {{"model_type", "distilbert"},
                  {"architectures", {"DistilBertForMaskedLM"}},
                  {"vocab_size", words},
                  {"dim", kEncoderDim},
                  {"n_heads", 2},
                  {"n_layers", 1},
                  {"hidden_dim", 12},
                  {"max_position_embeddings", 12}};
  Filler fill(files, kEncoderDim, "distilbert.");
  fill.add("embeddings.word_embeddings.weight", {words, kEncoderDim});
  fill.add("embeddings.position_embeddings.weight", {12, kEncoderDim});
  fill.norm("embeddings.LayerNorm");
  const std::string layer = "transformer.layer.0.";
  for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"}) {
    fill.both(layer + "attention." + part, kEncoderDim, kEncoderDim);
  }
  fill.norm(layer + "sa_layer_norm");
  fill.both(layer + "ffn.lin1", 12, kEncoderDim);
  fill.both(layer + "ffn.lin2", kEncoderDim, 12);
  fill.norm(layer + "output_layer_norm");
  fill.set_prefix("");
  fill.both("vocab_transform", kEncoderDim, kEncoderDim);
  fill.norm("vocab_layer_norm");
  fill.add("vocab_projector.bias", {words});
  const TemporaryFolder folder;
  files.save(folder.path());
  testing::save_bert_words(folder.path());
  const Loaded loaded = load(folder.path());
  const auto ids = ids_of({"[CLS]", "the", "[MASK]", "sat", "[SEP]"});
  const TextInputs inputs{.ids = tensor<int64_t>(ids, {1, std::ssize(ids)}), .lengths = {}};
  const auto logits = loaded.encoder().masked_head().logits(loaded.encoder().masked_hidden(inputs)).to_vector<double>();
  naive::Row expected(logits.begin() + 2 * words, logits.begin() + 3 * words);
  for (double& value : expected) value = std::exp(value);
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (double& value : expected) value /= sum;
  expect_candidates(loaded.fill({"the [MASK] sat"})[0].masks[0], expected, *loaded.tokenizer);
}

}  // namespace
}  // namespace attend
