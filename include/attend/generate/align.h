#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/generate/translate.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct AlignOptions {
  std::optional<int64_t> layer;  ///< of the decoder, from 0; none: the mean over all
  std::optional<int64_t> head;   ///< from 0; none: the mean over all
  GenerationRules rules{};       ///< what the model's folder says: a prefix is read, but its words are not aligned
};

/// Where each word of a target looked in its source.
struct WordAlignment {
  std::vector<std::string> source, target;   ///< the words, see words_of
  std::vector<std::vector<double>> weights;  ///< [target word][source word]; a row adds up to 1 less what went to the
                                             ///< source's end and to a prefix
  std::vector<std::pair<int64_t, int64_t>> links;  ///< (source word, target word): the largest weight of each row
};

/// Reads each pair once and asks for the weights of the decoder's attention to the source at the moment it writes a
/// token. A word's weight is the sum over its tokens in the source, the mean over its tokens in the target. Of equal
/// weights the first word has the link. Throws Error if the model has no attention to the source, ShapeError for a
/// layer or head it does not have, or for unequal numbers of texts.
std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const std::string> targets,
                                 const AlignOptions& options = {});

/// The same for targets as a model wrote them, whose tokens need not be those that the tokenizer makes of their text.
std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const Translation> targets,
                                 const AlignOptions& options = {});

/// The same from weights token by token, [targets, sources]: a row for each token of the target and one for its end, a
/// column for each token of the source and one for its end. Throws ShapeError for another number of them.
WordAlignment align_words(const Tokenizer& tokenizer, const std::string& source, const std::string& target,
                          std::span<const double> weights);

/// `0-0 1-2`: source word - target word, in the order of the target.
std::string pharaoh(const WordAlignment& alignment);

/// The words of a text as one counts them: what stands between blanks; where a script has no blanks between words, the
/// segments of attend/text/segment.h (single characters of Chinese and Japanese).
std::vector<std::string> words_of(const std::string& text);

}  // namespace attend
