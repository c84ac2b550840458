#pragma once

#include <numbers>

#include "hub_testing.h"

// An independent implementation of Llama and related models from their definitions: in double, token by token.
namespace attend::testing {

class LlamaReference {
 public:
  explicit LlamaReference(const HubFiles& files) : files_(files), c_(files.config) {}

  /// The logits of every position, concatenated.
  std::vector<double> logits(const std::vector<int64_t>& ids) {
    std::vector<Vector> x;
    for (const int64_t id : ids) x.push_back(row(weight("model.embed_tokens.weight"), id, dim()));
    for (int64_t layer = 0; layer < c_["num_hidden_layers"]; ++layer) x = block(x, layer);
    std::vector<double> result;
    const bool tied = c_.value("tie_word_embeddings", false);
    for (Vector& v : x) {
      v = norm(v, weight("model.norm.weight"));
      const Vector y = times(v, tied ? "model.embed_tokens" : "lm_head");
      result.insert(result.end(), y.begin(), y.end());
    }
    return result;
  }

  /// The attention window of a layer.
  int64_t window(int64_t layer) const {
    if (!c_.contains("sliding_window") || c_["sliding_window"].is_null()) return 0;
    if (c_["model_type"] == "mistral") return c_["sliding_window"];
    if (!c_.value("use_sliding_window", false)) return 0;
    const bool slides = c_.contains("layer_types")
                            ? c_["layer_types"][static_cast<size_t>(layer)] == "sliding_attention"
                            : layer >= c_.value("max_window_layers", 28);
    return slides ? c_["sliding_window"].get<int64_t>() : 0;
  }

 private:
  using Vector = std::vector<double>;

  int64_t dim() const { return c_["hidden_size"]; }
  int64_t heads() const { return c_["num_attention_heads"]; }
  int64_t key_heads() const { return c_.value("num_key_value_heads", heads()); }
  int64_t turned() const {
    return static_cast<int64_t>(static_cast<double>(head_dim()) * c_.value("partial_rotary_factor", 1.0));
  }
  int64_t head_dim() const { return c_.value("head_dim", dim() / heads()); }

  Vector weight(const std::string& name) const { return files_.tensors.at(name).to_vector<double>(); }
  static Vector row(const Vector& matrix, int64_t index, int64_t width) {
    return {matrix.begin() + index * width, matrix.begin() + (index + 1) * width};
  }

  Vector times(const Vector& x, const std::string& name) const {
    const Vector w = weight(name + ".weight");
    Vector y(w.size() / x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    }
    if (files_.tensors.contains(name + ".bias")) {
      const Vector bias = weight(name + ".bias");
      for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
    }
    return y;
  }

  Vector norm(const Vector& x, const Vector& w) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + c_.value("rms_norm_eps", 1e-6));
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / root * w[i];
    return y;
  }

  double frequency(int64_t pair) const {
    const nlohmann::json scaling = c_.contains("rope_parameters") ? c_["rope_parameters"]
                                   : c_.contains("rope_scaling")  ? c_["rope_scaling"]
                                                                  : nlohmann::json::object();
    const double theta = scaling.value("rope_theta", c_.value("rope_theta", 10000.0));
    const double plain = std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(turned()));
    const std::string type = scaling.value("rope_type", scaling.value("type", "default"));
    if (type == "linear") return plain / scaling["factor"].get<double>();
    if (type != "llama3") return plain;
    const double factor = scaling["factor"], low = scaling["low_freq_factor"], high = scaling["high_freq_factor"];
    const double context = scaling["original_max_position_embeddings"], length = 2 * std::numbers::pi / plain;
    if (length > context / low) return plain / factor;
    if (length < context / high) return plain;
    const double smooth = (context / length - low) / (high - low);
    return (1 - smooth) * plain / factor + smooth * plain;
  }

  /// The heads of one projection of one token, after norm and rotation.
  std::vector<Vector> heads_of(const Vector& x, const std::string& name, const std::string& norm_name,
                               int64_t position) {
    const Vector all = times(x, name);
    std::vector<Vector> result;
    for (int64_t h = 0; h * head_dim() < std::ssize(all); ++h) {
      Vector head = row(all, h, head_dim());
      if (files_.tensors.contains(norm_name)) head = norm(head, weight(norm_name));
      if (position >= 0) {
        const int64_t half = turned() / 2;
        for (int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(position) * frequency(i), a = head[size_t(i)],
                       b = head[size_t(i + half)];
          head[size_t(i)] = a * std::cos(angle) - b * std::sin(angle);
          head[size_t(i + half)] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
      result.push_back(head);
    }
    return result;
  }

  std::vector<Vector> block(std::vector<Vector> x, int64_t layer) {
    const std::string base = "model.layers." + std::to_string(layer) + ".", own = base + "self_attn.";
    std::vector<std::vector<Vector>> q, k, v;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vector y = norm(x[t], weight(base + "input_layernorm.weight"));
      q.push_back(heads_of(y, own + "q_proj", own + "q_norm.weight", std::ssize(q)));
      k.push_back(heads_of(y, own + "k_proj", own + "k_norm.weight", std::ssize(k)));
      v.push_back(heads_of(y, own + "v_proj", "", -1));
    }
    const int64_t group = heads() / key_heads(), seen = window(layer);
    for (int64_t t = 0; t < std::ssize(x); ++t) {
      Vector context;
      for (int64_t h = 0; h < heads(); ++h) {
        Vector sum(static_cast<size_t>(head_dim()));
        double total = 0;
        for (int64_t j = seen > 0 ? std::max<int64_t>(0, t - seen + 1) : 0; j <= t; ++j) {
          double score = 0;
          for (size_t i = 0; i < sum.size(); ++i)
            score += q[size_t(t)][size_t(h)][i] * k[size_t(j)][size_t(h / group)][i];
          const double e = std::exp(score / std::sqrt(static_cast<double>(head_dim())));
          total += e;
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += e * v[size_t(j)][size_t(h / group)][i];
        }
        for (const double value : sum) context.push_back(value / total);
      }
      add(x[size_t(t)], times(context, own + "o_proj"));
    }
    for (Vector& token : x)
      add(token, feed_forward(norm(token, weight(base + "post_attention_layernorm.weight")), base));
    return x;
  }

  Vector feed_forward(const Vector& x, const std::string& base) const {
    const Vector gate = times(x, base + "mlp.gate_proj");
    Vector up = times(x, base + "mlp.up_proj");
    for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
    return times(up, base + "mlp.down_proj");
  }

  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const HubFiles& files_;
  const nlohmann::json& c_;
};

/// A Llama of two layers with random weights of the shapes its config needs.
inline HubFiles tiny_llama(const nlohmann::json& changes = {}) {
  HubFiles files;
  files.config = {{"model_type", "llama"},
                  {"architectures", {"LlamaForCausalLM"}},
                  {"vocab_size", 19},
                  {"hidden_size", 12},
                  {"intermediate_size", 20},
                  {"num_hidden_layers", 2},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},
                  {"head_dim", 6},
                  {"max_position_embeddings", 64},
                  {"rms_norm_eps", 1e-5}};
  if (changes.is_object()) files.config.update(changes);
  const auto& c = files.config;
  const int64_t dim = c["hidden_size"], hidden = c["intermediate_size"], words = c["vocab_size"];
  const int64_t inner = c["num_attention_heads"].get<int64_t>() * c["head_dim"].get<int64_t>();
  const int64_t keys = c["num_key_value_heads"].get<int64_t>() * c["head_dim"].get<int64_t>();
  uint64_t seed = 100;
  const auto add = [&](const std::string& name, const Shape& shape) {
    files.tensors[name] = random_weights(shape, seed++);
  };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  };
  const std::string type = c["model_type"];
  const bool attention = c.value("attention_bias", false), mlp = c.value("mlp_bias", false);
  linear("model.embed_tokens", words, dim, false);
  for (int64_t i = 0; i < c["num_hidden_layers"]; ++i) {
    const std::string base = "model.layers." + std::to_string(i) + ".", own = base + "self_attn.";
    add(base + "input_layernorm.weight", {dim});
    add(base + "post_attention_layernorm.weight", {dim});
    linear(own + "q_proj", inner, dim, attention || type == "qwen2");
    linear(own + "k_proj", keys, dim, attention || type == "qwen2");
    linear(own + "v_proj", keys, dim, attention || type == "qwen2");
    linear(own + "o_proj", dim, inner, attention);
    if (type == "qwen3") add(own + "q_norm.weight", {c["head_dim"]}), add(own + "k_norm.weight", {c["head_dim"]});
    linear(base + "mlp.gate_proj", hidden, dim, mlp);
    linear(base + "mlp.up_proj", hidden, dim, mlp);
    linear(base + "mlp.down_proj", dim, hidden, mlp);
  }
  add("model.norm.weight", {dim});
  if (!c.value("tie_word_embeddings", false)) linear("lm_head", words, dim, false);
  return files;
}

}  // namespace attend::testing
