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
  std::optional<int64_t> layer;  ///< decoder layer, from 0; default: the mean over all layers
  std::optional<int64_t> head;   ///< head, from 0; default: the mean over all heads
  GenerationRules rules{};       ///< generation settings of the model's folder; words of a prefix are not aligned
};

/// The attention of each target word to each source word.
struct WordAlignment {
  std::vector<std::string> source, target;  ///< the words, see words_of
  /// [target word][source word]. A row sums to 1 minus the weights of the source's end token and of a prefix.
  std::vector<std::vector<double>> weights;
  std::vector<std::pair<int64_t, int64_t>> links;  ///< (source word, target word): the largest weight of each row
};

/// Aligns the words of each pair by the cross-attention weights of the step that predicts a token. A word's weight is
/// the sum over its source tokens and the mean over its target tokens. If weights are equal, the first word has the
/// link. Throws Error if the model has no cross-attention, and ShapeError for a layer or head that does not exist or
/// for different numbers of sources and targets.
std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const std::string> targets,
                                 const AlignOptions& options = {});

/// align() for generated targets, whose tokens may differ from the tokenizer's encoding of their text.
std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const Translation> targets,
                                 const AlignOptions& options = {});

/// Aligns words by token weights [targets, sources], with a row for each target token and the end token, and a column
/// for each source token and the end token. Throws ShapeError if the number of weights is wrong.
WordAlignment align_words(const Tokenizer& tokenizer, const std::string& source, const std::string& target,
                          std::span<const double> weights);

/// The links in Pharaoh format, `0-0 1-2`: source word - target word, in the order of the target.
std::string pharaoh(const WordAlignment& alignment);

/// The words of a text, separated by white space. In scripts without spaces between words, the segments of
/// attend/text/segment.h (single characters of Chinese and Japanese).
std::vector<std::string> words_of(const std::string& text);

}  // namespace attend
