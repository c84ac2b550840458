#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// A predicted token for a mask.
struct MaskCandidate {
  int32_t id = 0;
  std::string token;       ///< spelled as in the vocabulary: `paris`, `##ing`, `ĠParis`, `▁Paris`
  std::string word;        ///< decoded text; `token` if the token has no text
  double probability = 0;  ///< softmax over the whole vocabulary
};

struct FilledMask {
  int64_t position = 0;                   ///< index of the mask among the text's tokens, including special tokens
  std::vector<MaskCandidate> candidates;  ///< by descending probability; smaller ids first if equal
};

struct FilledText {
  std::vector<FilledMask> masks;  ///< in the order of the text; empty if the text has no mask
  std::string text;               ///< the text with each mask replaced by its most probable candidate
  int64_t tokens = 0;             ///< number of tokens read, including special tokens
  bool is_cut = false;            ///< the text was truncated to the model's context
};

struct FillOptions {
  int64_t top = 5;              ///< number of candidates per mask, at most the vocabulary size
  int64_t batch_tokens = 4096;  ///< maximum batch size in tokens, including padding: texts · longest length
};

/// Predicts each mask token ([MASK], <mask>) of each text. All masks of a text are predicted at once: the probability
/// of a candidate is conditioned on the text with all its masks. Throws FormatError if a text is not UTF-8, or the
/// tokenizer has no mask token or does not match the model. Throws Error if the model has no masked-language-model
/// head, and ShapeError if an option is out of range.
std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const FillOptions& options = {});

}  // namespace attend
