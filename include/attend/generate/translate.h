#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attend/generate/search.h"

namespace attend {

/// One translation of a source.
struct Translation {
  std::string text;
  std::vector<int32_t> ids;    ///< the generated tokens, without begin and end token
  double log_probability = 0;  ///< see Hypothesis
  double score = 0;
  int64_t tokens = 0;  ///< number of generated tokens, including the end token
  bool is_cut = false;
};

struct TranslatedLine {
  int64_t index = 0;              ///< index of the line
  std::vector<Translation> best;  ///< never empty; best first, or samples in the order of sampling
  int64_t source_tokens = 0;      ///< source tokens read, including the end token; 0 for a blank line
  bool is_source_cut = false;     ///< the source was truncated to the model's context
};

/// Called for each line in the order of the lines, as soon as this line and all lines before it are translated.
using OnTranslated = std::function<void(const TranslatedLine&)>;

/// Translates lines of text in batches of similar length. Puts the prefix of the options' rules before each line. The
/// translation of a blank line is empty. Throws FormatError if a line is not UTF-8 or the tokenizer does not match the
/// model.
std::vector<TranslatedLine> translate(const PairModel& model, const Tokenizer& tokenizer,
                                      std::span<const std::string> lines, const SearchOptions& options = {},
                                      const OnTranslated& on_translated = {});

}  // namespace attend
