#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "attend/inspect/document.h"
#include "attend/text/tokenizer.h"
#include "generate/tiny_models.h"

namespace attend::testing {

/// A character tokenizer of printable ASCII and a few other characters.
inline std::shared_ptr<const Tokenizer> character_tokenizer() {
  std::string all = "今天天气很好";
  for (char c = ' '; c <= '~'; ++c) all += c;
  bool is_given = false;
  return train_tokenizer(
      [&]() -> std::optional<std::string> { return std::exchange(is_given, true) ? std::nullopt : std::optional(all); },
      {.kind = TokenizerKind::characters, .vocabulary = 1000, .min_count = 1});
}

/// A tiny untrained model that reads characters.
inline InspectedModel tiny_inspected(const std::string& architecture,
                                     std::map<std::string, std::string> settings = {}) {
  static const auto tokenizer = character_tokenizer();
  return {.name = "tiny",
          .model = tiny_model(architecture, tokenizer->size(), std::move(settings)),
          .tokenizer = tokenizer,
          .example = "abc",
          .example_target = {}};
}

/// A tiny untrained model for images of 6 × 6 pixels in four patches.
inline InspectedModel tiny_vision() {
  Rng rng{3};
  return {.name = "tiny",
          .model = Vision::create(
              {.image = 6, .patch = 3, .labels = {"cat", "狗"}, .dim = 8, .heads = 2, .layers = 2, .ffn_dim = 12}, rng),
          .tokenizer = {},
          .example = {},
          .example_target = {},
          .preparation = {.size = {6, 6}}};
}

/// An image in which every pixel differs from its neighbours.
inline std::shared_ptr<const Image> motley_picture(int64_t width, int64_t height) {
  Image image{.width = width, .height = height, .pixels = {}};
  for (int64_t i = 0; i < width * height * 3; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
  return std::make_shared<const Image>(std::move(image));
}

inline Run tiny_run(const InspectedModel& model, RunOptions options) {
  if (model.model->kind() == ModelKind::translation && !options.target) options.target = "dcba";
  return capture(model, std::move(options));
}

}  // namespace attend::testing
