#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/inspect/embeddings.h"
#include "attend/inspect/experiment.h"

// The circuits of one attention head in words (Elhage et al. 2021): what it looks for, and what it writes.
namespace attend {

struct CircuitOptions {
  std::string module;  ///< path of the attention module, "stack.layers.3.attention"
  int64_t head = 0;
  std::vector<int32_t> tokens{};  ///< tokens to probe, at most 64
  int64_t top = 8;                ///< words per list, 1 to 50
  OnSteps on_step{};
};

/// The circuits of one token.
struct TokenCircuit {
  ShownToken token;
  /// OV: the token is attended to. The words whose logits the head raises and lowers most, with the change of the logit
  /// for a weight of 1 and a final norm of scale 1.
  std::vector<TokenNeighbour> raises, lowers;
  /// QK: the token is the query. The words that it attends to most, and least, with the score before the softmax.
  std::vector<TokenNeighbour> seeks, avoids;
};

struct HeadCircuits {
  std::vector<TokenCircuit> tokens;
  /// Fraction of a sample of the vocabulary whose own word is among the ten words that the OV circuit raises most: near
  /// 1 for a head that copies. Empty if input words and output words differ.
  std::optional<double> copying;
  int64_t sampled = 0;  ///< words of that sample
};

/// W_E · W_OV · W_U and W_E · W_QK · W_Eᵀ for some tokens. Embeddings stand for the residual stream: each passes the
/// layer's norm if it comes before the branch, and the result the weight of the final norm. Positions, earlier layers
/// and rotations are left out. Throws ShapeError if the module, the head or an option does not exist, and Error if the
/// model does not read and predict words.
HeadCircuits head_circuits(const InspectedModel& model, const CircuitOptions& options);

}  // namespace attend
