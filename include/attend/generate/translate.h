#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attend/generate/search.h"

namespace attend {

/// One of the texts found for a source.
struct Translation {
  std::string text;
  std::vector<int32_t> ids;    ///< the tokens of the text as the model wrote them, without begin and end
  double log_probability = 0;  ///< as Hypothesis has them
  double score = 0;
  int64_t tokens = 0;  ///< written, the end counted
  bool is_cut = false;
};

struct TranslatedLine {
  int64_t index = 0;              ///< of the line
  std::vector<Translation> best;  ///< never empty; best first, or samples in the order of their draws
  int64_t source_tokens = 0;      ///< read, the end counted; 0 for a blank line, whose translation is empty
  bool is_source_cut = false;     ///< the source was longer than the context: its end was not read
};

/// Called for each line in the order of the lines, as soon as all before it are done.
using OnTranslated = std::function<void(const TranslatedLine&)>;

/// Translates lines of text, in batches of like length, each with the prefix of the options' rules before it. Throws
/// FormatError if a line is not UTF-8, or if the tokenizer does not fit the model.
std::vector<TranslatedLine> translate(const PairModel& model, const Tokenizer& tokenizer,
                                      std::span<const std::string> lines, const SearchOptions& options = {},
                                      const OnTranslated& on_translated = {});

}  // namespace attend
