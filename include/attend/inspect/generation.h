#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct GenerationOptions {
  std::string text;                   ///< sentence to translate, or prompt
  int64_t beam = 1;                   ///< beam size, 1 to 8
  int64_t length = 64;                ///< maximum number of tokens to generate, 1 to 256
  int64_t candidates = 5;             ///< number of candidate tokens per step, 1 to 50
  std::optional<double> temperature;  ///< sample with this temperature instead of searching; needs a beam of 1
  uint64_t seed = 0;                  ///< random seed for sampling
  GenerationRules rules{};            ///< generation settings of the model's folder
};

/// Receives a line of JSON. Returning false ends the generation.
using OnGenerationLine = std::function<bool(const std::string& json)>;

/// Throws ShapeError if an option is out of range or the model does not generate text.
void check_generation(const Model& model, const GenerationOptions& options);

/// Generates text and reports each step as a line of JSON (docs/inspect-format.md, "generation"). The first line has
/// the sides and attention modules. Each step has the nodes that beam search considered, with candidate tokens and
/// attention weights. The last line has the text. The tokens are the same as translate() finds with the same beam size.
/// Throws as check_generation and capture do.
void generate_steps(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    const OnGenerationLine& on_line);

}  // namespace attend
