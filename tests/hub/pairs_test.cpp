// BART, Marian and T5 with options that their reference cases do not use, against naive loops in f64.

#include "attend/models/transformer_model.h"
#include "attend/nn/relative_bias.h"
#include "hub/hub_files.h"
#include "naive.h"

namespace attend {
namespace {

using naive::Matrix;
using testing::complaint_about;
using testing::Filler;
using testing::HubFiles;
using testing::random_weights;
using testing::TemporaryFolder;

constexpr int64_t kWords = 19, kDim = 8, kContext = 12;
const std::vector<int64_t> kSource{4, 7, 1, 12, 3}, kTarget{2, 9, 5, 6};

/// Layers as in Fairseq: two in the encoder, one in the decoder, with different feed-forward widths.
void fill_layers(Filler& fill) {
  const auto attention = [&](const std::string& name) {
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"}) fill.both(name + "." + part, kDim, kDim);
  };
  const std::vector<std::pair<std::string, int64_t>> layers{
      {"model.encoder.layers.0.", 12}, {"model.encoder.layers.1.", 12}, {"model.decoder.layers.0.", 20}};
  for (const auto& [layer, hidden] : layers) {
    attention(layer + "self_attn");
    fill.norm(layer + "self_attn_layer_norm");
    fill.both(layer + "fc1", hidden, kDim);
    fill.both(layer + "fc2", kDim, hidden);
    fill.norm(layer + "final_layer_norm");
  }
  attention("model.decoder.layers.0.encoder_attn");
  fill.norm("model.decoder.layers.0.encoder_attn_layer_norm");
}

nlohmann::json pair_json(const std::string& type, const std::string& architecture) {
  return {{"model_type", type},
          {"architectures", {architecture}},
          {"vocab_size", kWords},
          {"d_model", kDim},
          {"encoder_layers", 2},
          {"decoder_layers", 1},
          {"encoder_attention_heads", 2},
          {"decoder_attention_heads", 4},
          {"encoder_ffn_dim", 12},
          {"decoder_ffn_dim", 20},
          {"max_position_embeddings", kContext},
          {"activation_function", "gelu"}};
}

Matrix attend_with(const naive::Weights& w, const std::string& name, const Matrix& x, const Matrix& memory,
                   const naive::AttentionSettings& settings) {
  return naive::linear(
      w, name + ".out_proj",
      naive::attention(naive::linear(w, name + ".q_proj", x), naive::linear(w, name + ".k_proj", memory),
                       naive::linear(w, name + ".v_proj", memory), settings));
}

Matrix feed_forward(const naive::Weights& w, const std::string& layer, const Matrix& x) {
  return naive::linear(w, layer + "fc2", naive::map(naive::linear(w, layer + "fc1", x), naive::gelu));
}

/// The decoder's last hidden states, from the inputs of both stacks.
Matrix naive_stacks(const naive::Weights& w, Matrix source, Matrix target) {
  for (const std::string layer : {"model.encoder.layers.0.", "model.encoder.layers.1."}) {
    source =
        naive::layer_norm(w, layer + "self_attn_layer_norm",
                          naive::add(source, attend_with(w, layer + "self_attn", source, source, {.heads = 2})), 1e-5);
    source = naive::layer_norm(w, layer + "final_layer_norm", naive::add(source, feed_forward(w, layer, source)), 1e-5);
  }
  const std::string layer = "model.decoder.layers.0.";
  target = naive::layer_norm(
      w, layer + "self_attn_layer_norm",
      naive::add(target, attend_with(w, layer + "self_attn", target, target, {.heads = 4, .causal = true})), 1e-5);
  target =
      naive::layer_norm(w, layer + "encoder_attn_layer_norm",
                        naive::add(target, attend_with(w, layer + "encoder_attn", target, source, {.heads = 4})), 1e-5);
  return naive::layer_norm(w, layer + "final_layer_norm", naive::add(target, feed_forward(w, layer, target)), 1e-5);
}

Matrix logits_of(const Matrix& x, const Matrix& output, const naive::Row& bias) {
  Matrix result;
  for (const auto& row : x) {
    naive::Row out;
    for (size_t i = 0; i < output.size(); ++i) out.push_back(naive::dot(output[i], row) + (bias.empty() ? 0 : bias[i]));
    result.push_back(out);
  }
  return result;
}

Tensor ids_of(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {1, std::ssize(ids)}); }

void expect_logits(const HubFiles& files, const Matrix& expected) {
  const TemporaryFolder folder;
  files.save(folder.path());
  const LoadedModel loaded = load_hub_model(folder.path());
  EXPECT_TRUE(loaded.unused.empty()) << loaded.unused.at(0);
  const auto& model = dynamic_cast<const PairModel&>(*loaded.model);
  std::vector<double> all;
  for (const auto& row : expected) all.insert(all.end(), row.begin(), row.end());
  const PairInputs inputs{.source = ids_of(kSource), .source_lengths = {}, .target = ids_of(kTarget)};
  testing::expect_close(model.head().logits(model.hidden(inputs)), all, 5e-5);
  const auto decoding = model.start(inputs.source, {});
  for (size_t t = 0; t < kTarget.size(); ++t) {  // token by token
    testing::expect_close(decoding->step(ids_of({kTarget[t]})), expected[t], 5e-5);
  }
}

TEST(Bart, ScaledAndUntied) {
  HubFiles files;
  files.config = pair_json("bart", "BartForConditionalGeneration");
  files.config["scale_embedding"] = true;
  files.config["tie_word_embeddings"] = false;
  Filler fill(files, kDim);
  fill_layers(fill);
  fill.add("model.shared.weight", {kWords, kDim});
  fill.add("lm_head.weight", {kWords, kDim});
  fill.add("final_logits_bias", {1, kWords});
  for (const std::string stack : {"model.encoder.", "model.decoder."}) {
    fill.add(stack + "embed_positions.weight", {kContext + 2, kDim});
    fill.norm(stack + "layernorm_embedding");
  }
  const naive::Weights w(files.tensors);
  const auto embed = [&](const std::vector<int64_t>& ids, const std::string& stack) {
    const auto words = w.matrix("model.shared.weight"), places = w.matrix(stack + "embed_positions.weight");
    Matrix x(ids.size(), naive::Row(kDim));
    for (size_t i = 0; i < ids.size(); ++i) {
      for (size_t c = 0; c < kDim; ++c) {
        x[i][c] = words[static_cast<size_t>(ids[i])][c] * std::sqrt(double{kDim}) + places[i + 2][c];
      }
    }
    return naive::layer_norm(w, stack + "layernorm_embedding", x, 1e-5);
  };
  const Matrix y = naive_stacks(w, embed(kSource, "model.encoder."), embed(kTarget, "model.decoder."));
  expect_logits(files, logits_of(y, w.matrix("lm_head.weight"), w.vector("final_logits_bias")));
}

TEST(Marian, SeparateEmbeddingsForBothSides) {
  HubFiles files;
  files.config = pair_json("marian", "MarianMTModel");
  files.config["share_encoder_decoder_embeddings"] = false;
  Filler fill(files, kDim);
  fill_layers(fill);
  fill.add("model.encoder.embed_tokens.weight", {kWords, kDim});
  fill.add("model.decoder.embed_tokens.weight", {kWords, kDim});
  fill.add("model.encoder.embed_positions.weight", {kContext, kDim});  // as in old files; never read
  const naive::Weights w(files.tensors);
  const auto embed = [&](const std::vector<int64_t>& ids, const std::string& table) {
    const auto words = w.matrix(table);
    Matrix x(ids.size(), naive::Row(kDim));
    for (size_t i = 0; i < ids.size(); ++i) {
      for (size_t c = 0; c < kDim; ++c) {
        const double angle = static_cast<double>(i) / std::pow(10000.0, static_cast<double>(c % 4) / 4);
        x[i][c] = words[static_cast<size_t>(ids[i])][c] + (c < kDim / 2 ? std::sin(angle) : std::cos(angle));
      }
    }
    return x;
  };
  const Matrix y = naive_stacks(w, embed(kSource, "model.encoder.embed_tokens.weight"),
                                embed(kTarget, "model.decoder.embed_tokens.weight"));
  expect_logits(files, logits_of(y, w.matrix("model.decoder.embed_tokens.weight"), {}));
}

/// T5 with one layer in each stack, a head size of 3, and the feed-forward network of version 1.1.
HubFiles t5_files() {
  HubFiles files;
  files.config = {{"model_type", "t5"},
                  {"architectures", {"T5ForConditionalGeneration"}},
                  {"vocab_size", kWords},
                  {"d_model", kDim},
                  {"d_kv", 3},
                  {"num_heads", 2},
                  {"num_layers", 1},
                  {"d_ff", 10},
                  {"feed_forward_proj", "gated-gelu"},
                  {"tie_word_embeddings", false},
                  {"relative_attention_num_buckets", 8},
                  {"relative_attention_max_distance", 6}};
  Filler fill(files, kDim);
  fill.add("shared.weight", {kWords, kDim});
  fill.add("lm_head.weight", {kWords, kDim});
  for (const std::string stack : {"encoder.", "decoder."}) {
    const bool decodes = stack == "decoder.";
    const std::string block = stack + "block.0.layer.";
    const auto attention = [&](const std::string& name) {
      for (const char* part : {".q", ".k", ".v"}) fill.add(name + part + ".weight", {6, kDim});
      fill.add(name + ".o.weight", {kDim, 6});
    };
    attention(block + "0.SelfAttention");
    fill.add(block + "0.SelfAttention.relative_attention_bias.weight", {8, 2});
    if (decodes) attention(block + "1.EncDecAttention");
    const std::string last = block + (decodes ? "2." : "1.");
    for (const char* part : {"wi_0", "wi_1"}) fill.add(last + "DenseReluDense." + part + ".weight", {10, kDim});
    fill.add(last + "DenseReluDense.wo.weight", {kDim, 10});
    for (int i = 0; i < (decodes ? 3 : 2); ++i) fill.add(block + std::to_string(i) + ".layer_norm.weight", {kDim});
    fill.add(stack + "final_layer_norm.weight", {kDim});
  }
  return files;
}

Matrix naive_t5(const naive::Weights& w, const std::vector<int64_t>& ids, const Matrix* memory) {
  const std::string stack = memory != nullptr ? "decoder." : "encoder.", block = stack + "block.0.layer.";
  const auto words = w.matrix("shared.weight"),
             table = w.matrix(block + "0.SelfAttention.relative_attention_bias.weight");
  Matrix x;
  for (const int64_t id : ids) x.push_back(words[static_cast<size_t>(id)]);
  const auto attend_to = [&](const std::string& name, const Matrix& queries, const Matrix& keys,
                             naive::AttentionSettings settings) {
    settings.heads = 2, settings.scale = 1;
    return naive::linear(w, name + ".o",
                         naive::attention(naive::linear(w, name + ".q", queries), naive::linear(w, name + ".k", keys),
                                          naive::linear(w, name + ".v", keys), settings));
  };
  Rng rng;
  const RelativeBias distances =
      RelativeBias::create({.heads = 2, .buckets = 8, .max_distance = 6, .looks_both_ways = memory == nullptr}, rng);
  const auto bias = [&](size_t head, int64_t i, int64_t j) {
    return table[static_cast<size_t>(distances.bucket(j - i))][head];
  };
  const auto normed = naive::rms_norm(w, block + "0.layer_norm", x, 1e-6);
  x = naive::add(x, attend_to(block + "0.SelfAttention", normed, normed, {.causal = memory != nullptr, .bias = bias}));
  if (memory != nullptr) {
    x = naive::add(
        x, attend_to(block + "1.EncDecAttention", naive::rms_norm(w, block + "1.layer_norm", x, 1e-6), *memory, {}));
  }
  const std::string last = block + (memory != nullptr ? "2." : "1.");
  const auto in = naive::rms_norm(w, last + "layer_norm", x, 1e-6);
  auto gate = naive::map(naive::linear(w, last + "DenseReluDense.wi_0", in), naive::gelu_tanh);
  const auto up = naive::linear(w, last + "DenseReluDense.wi_1", in);
  for (size_t i = 0; i < gate.size(); ++i) {
    for (size_t c = 0; c < gate[i].size(); ++c) gate[i][c] *= up[i][c];
  }
  x = naive::add(x, naive::linear(w, last + "DenseReluDense.wo", gate));
  return naive::rms_norm(w, stack + "final_layer_norm", x, 1e-6);
}

TEST(T5, GatedAndUntied) {
  const HubFiles files = t5_files();
  const naive::Weights w(files.tensors);
  const Matrix memory = naive_t5(w, kSource, nullptr);
  expect_logits(files, logits_of(naive_t5(w, kTarget, &memory), w.matrix("lm_head.weight"), {}));
}

TEST(T5, SavedAgainByTransformers5) {
  HubFiles files = t5_files();
  files.config["tie_word_embeddings"] = true;
  files.config["scale_decoder_outputs"] = false;
  const naive::Weights w(files.tensors);
  const Matrix memory = naive_t5(w, kSource, nullptr), y = naive_t5(w, kTarget, &memory);
  expect_logits(files, logits_of(y, w.matrix("lm_head.weight"), {}));
  files.tensors.erase("lm_head.weight");
  expect_logits(files, logits_of(y, w.matrix("shared.weight"), {}));
  files.config.erase("scale_decoder_outputs");
  files.config["tie_word_embeddings"] = false;  // in version 5 the key covers both
  expect_logits(files, logits_of(y, w.matrix("shared.weight"), {}));
}

TEST(T5, GatesAreUsualInMt5) {
  HubFiles files = t5_files();
  files.config["model_type"] = "mt5";
  files.config["architectures"] = {"MT5ForConditionalGeneration"};
  files.config.erase("feed_forward_proj");
  const naive::Weights w(files.tensors);
  const Matrix memory = naive_t5(w, kSource, nullptr);
  expect_logits(files, logits_of(naive_t5(w, kTarget, &memory), w.matrix("lm_head.weight"), {}));
}

TEST(T5, TiedLogitsAreScaled) {
  HubFiles files = t5_files();
  files.config["tie_word_embeddings"] = true;
  files.tensors.erase("lm_head.weight");
  const naive::Weights w(files.tensors);
  const Matrix memory = naive_t5(w, kSource, nullptr);
  Matrix y = naive_t5(w, kTarget, &memory);
  y = naive::map(y, [](double x) { return x / std::sqrt(double{kDim}); });
  expect_logits(files, logits_of(y, w.matrix("shared.weight"), {}));
}

TEST(T5, TiedLogitsOfMt5AreNot) {
  HubFiles files = t5_files();
  files.config["model_type"] = "mt5";
  files.config["architectures"] = {"MT5ForConditionalGeneration"};
  files.config["tie_word_embeddings"] = true;
  files.tensors.erase("lm_head.weight");
  const naive::Weights w(files.tensors);
  const Matrix memory = naive_t5(w, kSource, nullptr);
  expect_logits(files, logits_of(naive_t5(w, kTarget, &memory), w.matrix("shared.weight"), {}));
}

TEST(T5, ASecondEmbeddingMatrixMustBeEqual) {
  HubFiles files = t5_files();
  files.tensors["encoder.embed_tokens.weight"] = files.tensors.at("shared.weight").clone();
  const TemporaryFolder folder;
  files.save(folder.path());
  EXPECT_TRUE(load_hub_model(folder.path()).unused.empty());
  files.tensors["encoder.embed_tokens.weight"] = random_weights(files.tensors.at("shared.weight").shape(), 4242);
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "model.safetensors: model_type 't5' does not use tensor 'encoder.embed_tokens.weight'; results without it "
            "would be wrong (`attend info` lists all such tensors)");
}

TEST(Pairs, RefuseWhatTheyDoNotSupport) {
  const auto said = [](HubFiles files, const std::string& key, const nlohmann::json& value) {
    files.config[key] = value;
    const TemporaryFolder folder;
    files.save(folder.path());
    return complaint_about(folder.path());
  };
  HubFiles marian;
  marian.config = pair_json("marian", "MarianMTModel");
  marian.tensors["model.shared.weight"] = random_weights({kWords, kDim}, 1);
  EXPECT_EQ(said(marian, "decoder_vocab_size", 7), "config.json: 'decoder_vocab_size' must equal 'vocab_size'");
  EXPECT_EQ(said(marian, "max_position_embeddings", 16777216),
            "config.json: 'max_position_embeddings' 16777216 is too large");
  EXPECT_EQ(said(marian, "architectures", {"MarianForCausalLM"}),
            "config.json: architecture MarianForCausalLM is not supported; expected one of MarianMTModel, MarianModel");
  EXPECT_NE(said(t5_files(), "feed_forward_proj", "gated-mish").find("mish"), std::string::npos);
  EXPECT_NE(said(t5_files(), "relative_attention_num_buckets", 7).find("buckets must be even"), std::string::npos);
  EXPECT_NE(said(t5_files(), "d_kv", 0).find("d_kv"), std::string::npos);
  EXPECT_NE(said(t5_files(), "d_kv", 4).find("SelfAttention.q.weight"), std::string::npos);
}

}  // namespace
}  // namespace attend
