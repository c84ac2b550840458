#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/base/random.h"
#include "attend/models/registry.h"
#include "attend/optim/adam.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"

namespace attend::testing {

/// An untrained model of a few thousand parameters, with a far from uniform distribution of tokens.
inline std::unique_ptr<Model> tiny_model(const std::string& architecture, int64_t words,
                                         std::map<std::string, std::string> settings = {}) {
  settings["vocab_size"] = std::to_string(words);
  settings.try_emplace("dim", "16");
  settings.try_emplace("context", "64");
  if (architecture == "encoder") settings.try_emplace("labels", R"(["good", "bad", "无所谓"])");
  if (architecture.starts_with("rnn")) {
    settings.try_emplace("state_dim", "24");
  } else {
    settings.try_emplace("heads", "2");
    if (architecture == "transformer") settings.try_emplace("ffn_dim", "32");
  }
  Rng rng{11};
  auto model = create_model(with_settings(preset_config(architecture, "tiny"), settings), rng);
  for (auto& [name, tensor] : model->parameters()) {
    if (name != "embedding.weight") continue;
    for (float& value : tensor.data<float>()) value *= architecture == "gpt" || architecture == "encoder" ? 40 : 2;
  }
  return model;
}

/// Sentences of 1 to `longest` ids from `first` on, each followed by the end token (3).
inline std::vector<std::vector<int32_t>> random_sources(int64_t count, int64_t longest, int32_t first, int32_t words) {
  std::vector<std::vector<int32_t>> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto length = 1 + philox(5, i, 0)[0] % static_cast<uint32_t>(longest);
    for (uint32_t j = 0; j < length; ++j) {
      result[i].push_back(first + static_cast<int32_t>(philox(5, i, j + 1)[0] % static_cast<uint32_t>(words)));
    }
    result[i].push_back(3);
  }
  return result;
}

/// Trains the model for a few steps to copy its source: it stays unsure, but its texts end at different lengths.
inline void teach_copying(const PairModel& model, const std::vector<std::vector<int32_t>>& sources, int steps = 120) {
  Adam adam(model.parameters(), {.lr = 5e-3});
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<int32_t>> chosen, targets;
    std::vector<int64_t> labels;
    size_t longest = 0;
    for (size_t i = 0; i < 8; ++i) {
      chosen.push_back(sources[(static_cast<size_t>(step) * 8 + i) % sources.size()]);
      longest = std::max(longest, chosen.back().size());
    }
    for (const auto& source : chosen) {
      targets.push_back({2});
      targets.back().insert(targets.back().end(), source.begin(), source.end() - 1);
      labels.insert(labels.end(), source.begin(), source.end());
      labels.insert(labels.end(), longest - source.size(), -100);
    }
    const IdRows read = pad_rows(chosen), written = pad_rows(targets);
    backward(
        model.head().loss(model.hidden({.source = read.ids, .source_lengths = read.lengths, .target = written.ids}),
                          tensor(labels, written.ids.shape())));
    adam.step();
    for (const auto& [name, parameter] : model.parameters()) zero_grad(parameter);
  }
}

}  // namespace attend::testing
