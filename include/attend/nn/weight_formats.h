#pragma once

#include <map>
#include <vector>

#include "attend/nn/embedding.h"
#include "attend/nn/linear.h"
#include "attend/nn/recurrent.h"
#include "attend/ops/weight_format.h"

// Which parameters may be held in bf16 or int8, and the change of a whole model.
namespace attend {

/// Calls visit(weight) for the matrix of every Linear and Embedding below `node`, walking fields() as
/// for_each_parameter does. Other parameters (norms, biases, positions, recurrent cells) are used otherwise and stay as
/// they are.
template <class Node, class Visit>
void for_each_matrix(Node& node, Visit&& visit) {
  if constexpr (std::is_same_v<Node, Linear> || std::is_same_v<Node, Embedding>) {
    if (node.weight) visit(node.weight);
  } else if constexpr (std::is_same_v<Node, Tensor> || std::is_same_v<Node, RecurrentWeights>) {
    // not multiplied as a Linear is
  } else if constexpr (detail::is_optional<Node>) {
    if (node) for_each_matrix(*node, visit);
  } else if constexpr (detail::is_vector<Node>) {
    for (auto& part : node) for_each_matrix(part, visit);
  } else {
    Node::fields([&](const char*, auto member) { for_each_matrix(node.*member, visit); });
  }
}

/// The matrices of a model by address.
template <class Model>
std::vector<Tensor*> matrices_of(Model& model) {
  std::vector<Tensor*> result;
  for_each_matrix(model, [&](Tensor& weight) { result.push_back(&weight); });
  return result;
}

/// Puts each matrix into a format, one after the other: the old one is let go before the next is made. Matrices that
/// share their storage still do afterwards. For inference: nothing in another format than f32 has a gradient.
void set_weight_format(const std::vector<Tensor*>& matrices, WeightFormat format);

}  // namespace attend
