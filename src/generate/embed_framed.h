#pragma once

#include <span>
#include <string>
#include <vector>

#include "attend/generate/embed.h"
#include "text/framing.h"

// The parts of embed(), for a caller that tokenizes elsewhere or reads a text in parts.
namespace attend {

/// The model's input for a text, cut to the longest that it reads. Throws as embed() does.
FramedText frame_to_embed(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                          const EmbedOptions& options);
/// Computes the vectors of framed texts.
std::vector<EmbeddedText> embed_framed(const Model& model, std::vector<FramedText> texts, const EmbedOptions& options);
/// The vector of a text from its hidden states, `width` numbers for each token. Throws Error for NaN.
std::vector<float> embed_read(std::span<const float> tokens, int64_t width, const EmbedOptions& options);

}  // namespace attend
