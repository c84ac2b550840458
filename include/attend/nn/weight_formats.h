#pragma once

#include <map>
#include <vector>

#include "attend/nn/embedding.h"
#include "attend/nn/linear.h"
#include "attend/nn/recurrent.h"
#include "attend/ops/weight_format.h"

// Conversion of a model's weight matrices to bf16 or int8.
namespace attend {

/// Calls visit(weight) for the matrix of every Linear and Embedding in `node`, using fields() as for_each_parameter
/// does. Skips all other parameters (norms, biases, positions, recurrent cells), which do not support reduced formats.
template <class Node, class Visit>
void for_each_matrix(Node& node, Visit&& visit) {
  if constexpr (std::is_same_v<Node, Linear> || std::is_same_v<Node, Embedding>) {
    if (node.weight) visit(node.weight);
  } else if constexpr (std::is_same_v<Node, Tensor> || std::is_same_v<Node, RecurrentWeights>) {
    // does not support reduced formats
  } else if constexpr (detail::is_optional<Node>) {
    if (node) for_each_matrix(*node, visit);
  } else if constexpr (detail::is_vector<Node>) {
    for (auto& part : node) for_each_matrix(part, visit);
  } else {
    Node::fields([&](const char*, auto member) { for_each_matrix(node.*member, visit); });
  }
}

/// Pointers to the matrices of a model.
template <class Model>
std::vector<Tensor*> matrices_of(Model& model) {
  std::vector<Tensor*> result;
  for_each_matrix(model, [&](Tensor& weight) { result.push_back(&weight); });
  return result;
}

/// Converts each matrix to a format. Releases a matrix before it converts the next one, to limit peak memory. Matrices
/// that share their storage still share it afterwards. For inference: bf16 and int8 matrices have no gradient.
void set_weight_format(const std::vector<Tensor*>& matrices, WeightFormat format);

}  // namespace attend
