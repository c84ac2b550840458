#pragma once

#include <span>
#include <string>
#include <vector>

#include "attend/generate/classify.h"

// The parts of classify(), for a caller that tokenizes elsewhere.
namespace attend {

/// A model's input for a text or a pair of texts.
struct ClassifierInput {
  std::vector<int32_t> ids{}, types{};  ///< ids are empty for a blank text; `types` unless the model has several
  bool is_cut = false;
};

ClassifierInput read_text(const EncoderModel& model, const Tokenizer& tokenizer, const std::string& text);
/// A line with a tab between its texts; see classify_pairs().
ClassifierInput read_pair(const EncoderModel& model, const Tokenizer& tokenizer, const std::string& line);
std::vector<Classified> classify_read(const EncoderModel& model, std::span<const ClassifierInput> inputs,
                                      int64_t batch_tokens);

}  // namespace attend
