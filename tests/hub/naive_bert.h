#pragma once

#include "hub/hub_files.h"
#include "hub/naive.h"

namespace attend::naive {

/// The last hidden states of one text, computed with loops.
inline Matrix bert(const testing::HubFiles& files, const std::string& prefix, const std::vector<int64_t>& ids,
                   const std::vector<int64_t>& types, int64_t first_position) {
  const Weights w(files.tensors);
  const double eps = files.config["layer_norm_eps"];
  const auto words = w.matrix(prefix + "embeddings.word_embeddings.weight"),
             places = w.matrix(prefix + "embeddings.position_embeddings.weight"),
             kinds = w.matrix(prefix + "embeddings.token_type_embeddings.weight");
  Matrix x;
  for (size_t i = 0; i < ids.size(); ++i) {
    Row row;
    for (size_t c = 0; c < testing::kEncoderDim; ++c) {
      row.push_back(words[static_cast<size_t>(ids[i])][c] + places[i + static_cast<size_t>(first_position)][c] +
                    kinds[static_cast<size_t>(types.empty() ? 0 : types[i])][c]);
    }
    x.push_back(std::move(row));
  }
  x = layer_norm(w, prefix + "embeddings.LayerNorm", x, eps);
  for (const std::string number : {"0", "1"}) {
    const std::string layer = prefix + "encoder.layer." + number + ".";
    const Matrix attended =
        attention(linear(w, layer + "attention.self.query", x), linear(w, layer + "attention.self.key", x),
                  linear(w, layer + "attention.self.value", x), {.heads = 2});
    x = layer_norm(w, layer + "attention.output.LayerNorm",
                   add(x, linear(w, layer + "attention.output.dense", attended)), eps);
    const auto up = map(linear(w, layer + "intermediate.dense", x), gelu);
    x = layer_norm(w, layer + "output.LayerNorm", add(x, linear(w, layer + "output.dense", up)), eps);
  }
  return x;
}

}  // namespace attend::naive
