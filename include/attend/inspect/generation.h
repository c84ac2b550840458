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
  std::string text;                   ///< the sentence to translate, or the beginning of a text
  int64_t beam = 1;                   ///< 1 to 8
  int64_t length = 64;                ///< most tokens to write, 1 to 256
  int64_t candidates = 5;             ///< words shown for each step, 1 to 50
  std::optional<double> temperature;  ///< draw words instead of searching for the best; with a beam of 1 only
  uint64_t seed = 0;                  ///< of the draws
  GenerationRules rules{};            ///< as in RunOptions
};

/// Gets a line; false ends the generation.
using OnGenerationLine = std::function<bool(const std::string& json)>;

/// Throws ShapeError for options out of range or a model that writes nothing.
void check_generation(const Model& model, const GenerationOptions& options);

/// Writes word by word and says what happened, a line of JSON each (docs/inspect-format.md, "generation"): first the
/// sides and attention modules, then for each step the nodes that beam search considered, with the words that were
/// likely there and where the model looked, and at last the text. The words are those that translate() finds with the
/// same beam. Throws as check_generation and capture do.
void generate_steps(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    const OnGenerationLine& on_line);

}  // namespace attend
