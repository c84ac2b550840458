#pragma once

#include "attend/models/registry.h"
#include "attend/text/tokenizer.h"
#include "hub/hub_testing.h"

namespace attend::testing {

/// A tokenizer trained on a few lines of English and Chinese.
inline std::shared_ptr<const Tokenizer> small_tokenizer(TokenizerTraining training = {.kind = TokenizerKind::characters,
                                                                                      .min_count = 1}) {
  std::vector<std::string> lines;
  for (int i = 0; i < 4; ++i) {
    lines.insert(lines.end(), {"a dog runs in the park", "一只狗在公园里跑", "the park", "a dog", "狗，公园。"});
  }
  size_t next = 0;
  return train_tokenizer(
      [&]() -> std::optional<std::string> { return next < lines.size() ? std::optional(lines[next++]) : std::nullopt; },
      training);
}

/// A model in our format, without parameters of 0 or 1.
inline std::unique_ptr<Model> random_model(const std::string& architecture, const Tokenizer& tokenizer,
                                           std::map<std::string, std::string> settings) {
  settings["vocab_size"] = std::to_string(tokenizer.size());
  Rng rng{.seed = 3};
  auto model = create_model(with_settings(preset_config(architecture, "tiny"), settings), rng);
  for (const auto& [name, tensor] : model->parameters()) {
    copy_values(normal(tensor.shape(), 0, 0.4, rng.stream()), tensor.detach());
  }
  return model;
}

}  // namespace attend::testing
