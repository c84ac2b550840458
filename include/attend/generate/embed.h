#pragma once

#include <span>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/text_pooling.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct EmbedOptions {
  SentenceSettings sentence{};
  GenerationRules rules{};      ///< what the model's folder says; of them only the prefix of a pair model counts
  int64_t batch_tokens = 8192;  ///< texts are read together up to so many real tokens
};

struct EmbeddedText {
  std::vector<float> vector;  ///< zeros for a text without a token
  int64_t tokens = 0;         ///< read, special ones counted
  bool is_cut = false;        ///< the text was too long: its end was not read
};

/// A vector for each text, from the last layer of an encoder, of a language model, or of a translator's encoder. Texts
/// of like length are read together. Throws FormatError if a text is not UTF-8 or the tokenizer does not fit the model,
/// Error for a model that reads no text.
std::vector<EmbeddedText> embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                                const EmbedOptions& options = {});

/// The cosine of the angle between two vectors of one length; 0 where one of them is 0.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace attend
