#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/models/model.h"

// The equations of a model's forward pass, so that its steps can be shown with the right formulas.
namespace attend {

/// Rotary positions: each pair of features is rotated by position · frequency.
struct RotaryArithmetic {
  std::vector<double> frequencies;  ///< one for each pair
  bool is_interleaved = false;      ///< pairs are features (2i, 2i + 1), instead of (i, i + pairs)
};

/// The equations of one stack of layers. Parameters of layer i have names that begin with "<name>.layers.<i>.".
struct StackArithmetic {
  std::string name;  ///< "encoder", "decoder" or "stack", as in RunAttention::stack
  int64_t layers = 0;
  bool is_norm_first = false;  ///< x + f(norm(x)) instead of norm(x + f(x))
  bool is_rms = false;         ///< RMSNorm instead of LayerNorm
  double eps = 0;              ///< of the norms
  std::string activation;      ///< of the feed-forward networks
  bool is_gated = false;
  bool has_final_norm = false;
  std::string positions;         ///< "learned", "sinusoidal", "rotary", "alibi", "relative" or "none"
  double embedding_scale = 1;    ///< factor of the token embeddings
  std::string embedding_norm{};  ///< prefix of the parameters of a norm after the embeddings; may be empty
  std::optional<RotaryArithmetic> rotary{};
  std::optional<double> query_norm_eps{};  ///< RMSNorm on the queries and keys of each head
};

/// The equations of a model.
struct Arithmetic {
  std::vector<StackArithmetic> stacks;
  double output_scale = 1;        ///< factor of the output layer's input
  std::string output_bias;        ///< name of the output layer's bias; empty: no bias
  std::string pooling;            ///< of a classifier: "mean" or "first"
  std::string pooler;             ///< activation of the layer before the classifier: "tanh", "relu" or empty
  std::string scores;             ///< of a classifier: "shares", "each" or "values"
  std::string masked_activation;  ///< of the layer before the output layer for masked words; empty: no such layer
  std::string cell, score;        ///< of a recurrent model: "gru", …; "additive", "dot" or "general"
};

/// The equations of a model of this library; empty for a model of another class.
Arithmetic arithmetic_of(const Model& model);

}  // namespace attend
