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
  int64_t label = -1;          ///< number of the likeliest label; -1 for a blank text
  std::vector<double> scores;  ///< of all labels, in the model's order: see LabelScores; empty for a blank text
  int64_t tokens = 0;          ///< read, special ones counted
  bool is_cut = false;         ///< the text was longer than the context: its end was not read
};

/// The label of each text, in the order of the texts. Those of like length are read together, up to texts · longest ≤
/// `batch_tokens`. Throws FormatError if a text is not UTF-8 or the tokenizer does not fit the model.
std::vector<Classified> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> texts, int64_t batch_tokens = 4096);

/// The label of each pair of texts, a tab between them (natural language inference, paraphrases). Throws FormatError
/// for a line without a tab.
std::vector<Classified> classify_pairs(const EncoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> lines, int64_t batch_tokens = 4096);
/// The label of a picture.
Classified classify(const ImageModel& model, const ImagePreparation& preparation, const Image& image);

}  // namespace attend
