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
  GenerationRules
      rules{};  ///< generation settings of the model's folder; only the prefix is used, by translation models
  int64_t batch_tokens = 8192;  ///< maximum number of tokens per batch, without padding
};

struct EmbeddedText {
  std::vector<float> vector;  ///< zeros for a text without tokens
  int64_t tokens = 0;         ///< number of tokens read, including special tokens
  bool is_cut = false;        ///< the text was truncated to the maximum length
};

/// Computes a vector for each text from the last layer of an encoder, a language model, or a translation model's
/// encoder. Texts of similar length are batched. Throws FormatError if a text is not UTF-8 or the tokenizer does not
/// match the model. Throws Error if the model does not read text.
std::vector<EmbeddedText> embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                                const EmbedOptions& options = {});

/// embed() for token ids, which are read as they are: no special tokens are added. Throws ShapeError if an id is not in
/// the model's vocabulary.
std::vector<EmbeddedText> embed_ids(const Model& model, std::span<const std::vector<int32_t>> texts,
                                    const EmbedOptions& options = {});

/// Cosine similarity of two vectors of the same size; 0 if one of them is zero.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace attend
