#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// A word that may stand in the place of a mask.
struct MaskCandidate {
  int32_t id = 0;
  std::string token;       ///< as the vocabulary spells it: `paris`, `##ing`, `ĠParis`, `▁Paris`
  std::string word;        ///< as people write it; the token where it has no text of its own
  double probability = 0;  ///< softmax over the whole vocabulary
};

struct FilledMask {
  int64_t position = 0;                   ///< of the mask among the text's tokens, from 0, special ones counted
  std::vector<MaskCandidate> candidates;  ///< likeliest first; of equal ones smaller ids first
};

struct FilledText {
  std::vector<FilledMask> masks;  ///< in the order of the text; none for a text without a mask
  std::string text;               ///< the text with the likeliest word in the place of each mask
  int64_t tokens = 0;             ///< read, special ones counted
  bool is_cut = false;            ///< the text was longer than the context: its end was not read
};

struct FillOptions {
  int64_t top = 5;              ///< candidates for each mask; at most as many as the vocabulary has tokens
  int64_t batch_tokens = 4096;  ///< texts are read together up to texts · longest
};

/// The likeliest words for each mask token ([MASK], <mask>) in each text. All masks of a text are filled at once: a
/// candidate's probability is that of the mask alone, given the text with all its masks. Throws FormatError if a text
/// is not UTF-8, the tokenizer has no mask token or does not fit the model; Error for a model without a masked-word
/// head; ShapeError for options out of range.
std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const FillOptions& options = {});

}  // namespace attend
