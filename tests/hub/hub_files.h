#pragma once

#include "hub/hub_testing.h"

// Folders of small models with random weights, as transformers would write them.
namespace attend::testing {

/// Adds random tensors under one prefix.
class Filler {
 public:
  Filler(HubFiles& files, int64_t dim, std::string prefix = "")
      : files_(files), dim_(dim), prefix_(std::move(prefix)), seed_(files.tensors.size() + 1) {}

  void add(const std::string& name, const Shape& shape) {
    files_.tensors[prefix_ + name] = random_weights(shape, seed_++);
  }
  void both(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  void norm(const std::string& name) {
    add(name + ".weight", {dim_});
    add(name + ".bias", {dim_});
  }
  void set_prefix(const std::string& prefix) { prefix_ = prefix; }

 private:
  HubFiles& files_;
  int64_t dim_;
  std::string prefix_;
  uint64_t seed_;
};

constexpr int64_t kEncoderDim = 8, kEncoderHidden = 12, kEncoderContext = 10;

/// The body of a BERT or RoBERTa with two layers, without heads.
inline HubFiles bert_files(const std::string& type, const std::string& prefix, int64_t words = 17,
                           int64_t context = kEncoderContext) {
  HubFiles files;
  const bool is_roberta = type == "roberta";
  const int64_t positions = context + (is_roberta ? 2 : 0);
  files.config = {{"model_type", type},
                  {"architectures", {is_roberta ? "RobertaModel" : "BertModel"}},
                  {"vocab_size", words},
                  {"hidden_size", kEncoderDim},
                  {"num_attention_heads", 2},
                  {"num_hidden_layers", 2},
                  {"intermediate_size", kEncoderHidden},
                  {"max_position_embeddings", positions},
                  {"type_vocab_size", is_roberta ? 1 : 2},
                  {"layer_norm_eps", 1e-5},
                  {"pad_token_id", is_roberta ? 1 : 0}};
  Filler fill(files, kEncoderDim, prefix);
  fill.add("embeddings.word_embeddings.weight", {words, kEncoderDim});
  fill.add("embeddings.position_embeddings.weight", {positions, kEncoderDim});
  fill.add("embeddings.token_type_embeddings.weight", {is_roberta ? 1 : 2, kEncoderDim});
  fill.norm("embeddings.LayerNorm");
  for (const std::string layer : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const char* part : {"query", "key", "value"}) {
      fill.both(layer + "attention.self." + part, kEncoderDim, kEncoderDim);
    }
    fill.both(layer + "attention.output.dense", kEncoderDim, kEncoderDim);
    fill.norm(layer + "attention.output.LayerNorm");
    fill.both(layer + "intermediate.dense", kEncoderHidden, kEncoderDim);
    fill.both(layer + "output.dense", kEncoderDim, kEncoderHidden);
    fill.norm(layer + "output.LayerNorm");
  }
  return files;
}

/// A BERT classifier with two labels.
inline HubFiles bert_classifier(int64_t words, int64_t context) {
  HubFiles files = bert_files("bert", "bert.", words, context);
  files.config["architectures"] = {"BertForSequenceClassification"};
  files.config["id2label"] = {{"0", "no"}, {"1", "是"}};
  Filler fill(files, kEncoderDim, "bert.");
  fill.both("pooler.dense", kEncoderDim, kEncoderDim);
  fill.set_prefix("");
  fill.both("classifier", 2, kEncoderDim);
  return files;
}

/// A BERT with a masked-word head.
inline HubFiles bert_masked(int64_t words, int64_t context) {
  HubFiles files = bert_files("bert", "bert.", words, context);
  files.config["architectures"] = {"BertForMaskedLM"};
  Filler fill(files, kEncoderDim, "cls.predictions.");
  fill.both("transform.dense", kEncoderDim, kEncoderDim);
  fill.norm("transform.LayerNorm");
  fill.add("bias", {words});
  return files;
}

/// The lines of a small BERT vocabulary file. Its tokenizer splits Chinese into characters.
inline const std::vector<std::string>& bert_words() {
  static const std::vector<std::string> words{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the",    "cat",
                                              "dog",   "sat",   "on",    "mat",   "##s",    "##ting", "今",
                                              "天",    "气",    "很",    "好",    ".",      "。"};
  return words;
}
inline void save_bert_words(const std::string& folder) {
  std::ofstream file(folder + "/vocab.txt");
  for (const std::string& word : bert_words()) file << word << '\n';
}

/// A ViT of width 8 with one layer, for images of 6 × 6 pixels in patches of 3 × 3.
inline HubFiles vit_files() {
  constexpr int64_t dim = 8;
  HubFiles files;
  files.config = {{"model_type", "vit"},
                  {"architectures", {"ViTForImageClassification"}},
                  {"hidden_size", dim},
                  {"num_attention_heads", 2},
                  {"num_hidden_layers", 1},
                  {"intermediate_size", 12},
                  {"image_size", 6},
                  {"patch_size", 3},
                  {"id2label", {{"0", "cat"}, {"1", "狗"}}}};
  Filler fill(files, dim, "vit.");
  fill.add("embeddings.cls_token", {1, 1, dim});
  fill.add("embeddings.position_embeddings", {1, 5, dim});
  fill.add("embeddings.patch_embeddings.projection.weight", {dim, 3, 3, 3});
  fill.add("embeddings.patch_embeddings.projection.bias", {dim});
  const std::string layer = "encoder.layer.0.";
  for (const char* part : {"query", "key", "value"}) fill.both(layer + "attention.attention." + part, dim, dim);
  fill.both(layer + "attention.output.dense", dim, dim);
  fill.norm(layer + "layernorm_before");
  fill.norm(layer + "layernorm_after");
  fill.both(layer + "intermediate.dense", 12, dim);
  fill.both(layer + "output.dense", dim, 12);
  fill.norm("layernorm");
  fill.set_prefix("");
  fill.both("classifier", 2, dim);
  return files;
}

}  // namespace attend::testing
