#include <cmath>

#include "attend/io/json.h"
#include "cli/explain_print.h"

namespace attend::cli {
namespace {

Json matrix(const Tensor& tensor) {
  if (!tensor) return nullptr;
  const auto values = tensor.to_vector<double>();
  Json rows = Json::array();
  for (int64_t r = 0; r < tensor.dim(0); ++r) {
    Json row = Json::array();
    for (int64_t c = 0; c < tensor.dim(1); ++c) {
      const double value = values[static_cast<size_t>(r * tensor.dim(1) + c)];
      row.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json head_json(const HeadSteps& head) {
  return {{"queries", matrix(head.queries)},   {"keys", matrix(head.keys)},      {"values", matrix(head.values)},
          {"dot_products", matrix(head.dots)}, {"scaled", matrix(head.scaled)},  {"masked", matrix(head.masked)},
          {"weights", matrix(head.weights)},   {"context", matrix(head.context)}};
}

}  // namespace

std::string steps_to_json(const ExplainSteps& steps, const std::string& text) {
  Json per_head = Json::array();
  for (const HeadSteps& head : steps.heads) per_head.push_back(head_json(head));
  const Json matrices = steps.options.trainable ? Json{{"query", matrix(steps.query_matrix)},
                                                       {"key", matrix(steps.key_matrix)},
                                                       {"value", matrix(steps.value_matrix)},
                                                       {"output", matrix(steps.output_matrix)}}
                                                : Json(nullptr);
  const Json result{{"text", text},
                    {"tokens", steps.tokens},
                    {"seed", steps.options.seed},
                    {"dim", steps.options.dim},
                    {"heads", steps.options.heads},
                    {"causal", steps.options.causal},
                    {"trainable", steps.options.trainable},
                    {"scale", steps.scale},
                    {"embeddings", matrix(steps.embeddings)},
                    {"positions", matrix(steps.positions)},
                    {"x", matrix(steps.x)},
                    {"matrices", matrices},
                    {"per_head", std::move(per_head)},
                    {"output", matrix(steps.output)}};
  return result.dump();
}

}  // namespace attend::cli
