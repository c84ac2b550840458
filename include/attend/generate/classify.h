#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/models/vision.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct Classified {
  int64_t label = -1;          ///< index of the label with the highest score; -1 for a blank text
  std::vector<double> scores;  ///< scores of all labels, in the model's order: see LabelScores; empty for a blank text
  int64_t tokens = 0;          ///< number of tokens read, including special tokens
  bool is_cut = false;         ///< the text was truncated to the model's context
};

/// Classifies each text. Results are in the order of the texts. Texts of similar length are batched, up to texts ·
/// longest length ≤ `batch_tokens`. Throws FormatError if a text is not UTF-8 or the tokenizer does not match the
/// model.
std::vector<Classified> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> texts, int64_t batch_tokens = 4096);

/// Classifies pairs of texts (natural language inference, paraphrases). Each line has two texts separated by a tab.
/// Throws FormatError for a line without a tab.
std::vector<Classified> classify_pairs(const EncoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> lines, int64_t batch_tokens = 4096);
/// Classifies an image.
Classified classify(const ImageModel& model, const ImagePreparation& preparation, const Image& image);

}  // namespace attend
