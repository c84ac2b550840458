#include "attend/generate/align.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "generate/id_rows.h"
#include "generate/top.h"
#include "generate/word_tokens.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kBatchTokens = 2048;

/// The attention weights of one sentence pair, [targets, sources] in tokens.
struct TokenWeights {
  std::vector<double> values;
  int64_t sources = 0;

  double at(int64_t target, int64_t source) const { return values[static_cast<size_t>(target * sources + source)]; }
};

std::vector<int64_t> chosen(std::optional<int64_t> wanted, int64_t count, const char* what) {
  require<ShapeError>(!wanted || (*wanted >= 0 && *wanted < count), "align: there is no ", what, " ",
                      wanted.value_or(0), "; the model has ", count, ", counted from 0");
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) {
    if (!wanted || i == *wanted) result.push_back(i);
  }
  return result;
}

/// The mean over the chosen layers and heads, for each pair of the batch.
std::vector<TokenWeights> mean_weights(const std::vector<Tensor>& layers, const AlignOptions& options) {
  const std::vector<int64_t> used = chosen(options.layer, std::ssize(layers), "layer");
  const int64_t batch = layers[0].dim(0), targets = layers[0].dim(2), sources = layers[0].dim(3);
  const auto size = static_cast<size_t>(targets * sources);
  std::vector<TokenWeights> result(static_cast<size_t>(batch), {std::vector<double>(size), sources});
  for (const int64_t layer : used) {
    const Tensor& weights = layers[static_cast<size_t>(layer)];
    const auto values = weights.to_vector<float>();
    const std::vector<int64_t> heads = chosen(options.head, weights.dim(1), "head");
    const double share = 1.0 / static_cast<double>(used.size() * heads.size());
    for (size_t row = 0; row < result.size(); ++row) {
      for (const int64_t head : heads) {
        const float* from = &values[(row * static_cast<size_t>(weights.dim(1)) + static_cast<size_t>(head)) * size];
        for (size_t i = 0; i < size; ++i) result[row].values[i] += share * static_cast<double>(from[i]);
      }
    }
  }
  return result;
}

struct Side {
  std::vector<std::string> words;
  std::vector<TokenRange> ranges;
  std::vector<int32_t> ids;  // including the end token
};

/// A text with its framed tokens. `ranges` are the ranges of its words among the unframed tokens.
Side side_of(const Tokenizer& tokenizer, const std::string& text, std::vector<int32_t> ids,
             std::vector<TokenRange> ranges) {
  Side side{.words = words_of(text), .ranges = std::move(ranges), .ids = std::move(ids)};
  const int64_t before = pair_frame(tokenizer.special()).before >= 0 ? 1 : 0;
  const auto pieces = std::ssize(side.ids) - 1;  // words at the end of a truncated text have no tokens
  for (TokenRange& range : side.ranges) {
    range = {.first = std::min(before + range.first, pieces), .last = std::min(before + range.last, pieces)};
  }
  return side;
}

Side side_of(const Tokenizer& tokenizer, const std::string& text, FramedText framed_text) {
  return side_of(tokenizer, text, std::move(framed_text.ids), word_tokens(tokenizer, text, word_places(text)));
}

/// A generated target.
Side side_of(const Tokenizer& tokenizer, const Translation& target, int64_t longest) {
  FramedText whole = framed(target.ids, pair_frame(tokenizer.special()), longest);
  // Models with a special first token generate it themselves.
  const bool has_first = !target.ids.empty() && target.ids[0] == pair_frame(tokenizer.special()).before;
  if (has_first) whole.ids.erase(whole.ids.begin());
  const std::span<const int32_t> pieces = std::span(target.ids).subspan(has_first ? 1 : 0);
  return side_of(tokenizer, target.text, std::move(whole.ids),
                 word_tokens(tokenizer, pieces, word_places(target.text)));
}

/// A source with the model's prefix. The prefix's tokens are in `ids`, but its words are not in `words`.
Side source_of(const Tokenizer& tokenizer, const std::string& text, int64_t longest, const GenerationRules& rules) {
  Side side = side_of(tokenizer, rules.prefix + text, frame_source(tokenizer, text, longest, rules.prefix));
  const auto before = side.words.size() - std::min(words_of(text).size(), side.words.size());
  side.words.erase(side.words.begin(), side.words.begin() + static_cast<ptrdiff_t>(before));
  side.ranges.erase(side.ranges.begin(), side.ranges.begin() + static_cast<ptrdiff_t>(before));
  return side;
}

WordAlignment merged(const Side& source, const Side& target, const TokenWeights& tokens) {
  WordAlignment result{.source = source.words, .target = target.words, .weights = {}, .links = {}};
  for (const TokenRange& rows : target.ranges) {
    std::vector<double> weights;
    for (const TokenRange& columns : source.ranges) {
      double sum = 0;
      for (int64_t t = rows.first; t < rows.last; ++t) {
        for (int64_t s = columns.first; s < columns.last; ++s) sum += tokens.at(t, s);
      }
      weights.push_back(sum / static_cast<double>(std::max<int64_t>(rows.last - rows.first, 1)));
    }
    const auto best = std::ranges::max_element(weights);
    if (best != weights.end() && *best > 0) {
      result.links.emplace_back(best - weights.begin(), std::ssize(result.weights));
    }
    result.weights.push_back(std::move(weights));
  }
  return result;
}

}  // namespace

WordAlignment align_words(const Tokenizer& tokenizer, const std::string& source, const std::string& target,
                          std::span<const double> weights) {
  const Side from = side_of(tokenizer, source, frame_source(tokenizer, source, INT64_MAX)),
             into = side_of(tokenizer, target, frame_target(tokenizer, target, INT64_MAX));
  const auto sources = std::ssize(from.ids), targets = std::ssize(into.ids);
  require<ShapeError>(std::ssize(weights) == targets * sources, "align: expected ", targets, " × ", sources,
                      " weights, got ", weights.size());
  return merged(from, into, {.values = {weights.begin(), weights.end()}, .sources = sources});
}

namespace {

std::vector<WordAlignment> align_sides(const PairModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> sources, const std::vector<Side>& into,
                                       const AlignOptions& options) {
  require<ShapeError>(sources.size() == into.size(), "align: there are ", sources.size(), " sources but ", into.size(),
                      " targets");
  const Vocabulary vocabulary = Vocabulary::of(tokenizer, model.vocab_size(), options.rules);
  require<FormatError>(vocabulary.end() >= 0, "align: the tokenizer has no end-of-sequence token");
  const NoGrad scope;
  std::vector<Side> from;
  // `written` starts with the begin token and omits the last token, the end: it needs no alignment.
  std::vector<std::vector<int32_t>> read, written;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < sources.size(); ++i) {
    from.push_back(source_of(tokenizer, sources[i], model.context(), options.rules));
    read.push_back(from[i].ids);
    written.push_back({vocabulary.begin});
    written.back().insert(written.back().end(), into[i].ids.begin(), into[i].ids.end() - 1);
    lengths.push_back(std::max(std::ssize(read[i]), std::ssize(written[i])));
  }
  std::vector<WordAlignment> result(sources.size());
  for (const Batch& batch : group_by_length(lengths, {.tokens = kBatchTokens})) {
    const IdRows source = pad_rows(read, batch), target = pad_rows(written, batch);
    AttentionRecorder recorder;
    model.hidden({.source = source.ids, .source_lengths = source.lengths, .target = target.ids},
                 {.observer = &recorder});
    const std::vector<Tensor> layers = model.cross_weights(recorder.traces);
    require<Error>(!layers.empty(), "align: architecture ", model.architecture(),
                   " has no cross-attention, so there is no alignment");
    const std::vector<TokenWeights> weights = mean_weights(layers, options);
    for (size_t row = 0; row < batch.size(); ++row) {
      const auto i = static_cast<size_t>(batch[row]);
      result[i] = merged(from[i], into[i], weights[row]);
    }
  }
  return result;
}

}  // namespace

std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const std::string> targets,
                                 const AlignOptions& options) {
  std::vector<Side> into;
  for (const std::string& target : targets) {
    into.push_back(side_of(tokenizer, target, frame_target(tokenizer, target, model.context())));
  }
  return align_sides(model, tokenizer, sources, into, options);
}

std::vector<WordAlignment> align(const PairModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> sources, std::span<const Translation> targets,
                                 const AlignOptions& options) {
  std::vector<Side> into;
  for (const Translation& target : targets) into.push_back(side_of(tokenizer, target, model.context()));
  return align_sides(model, tokenizer, sources, into, options);
}

std::string pharaoh(const WordAlignment& alignment) {
  std::string text;
  for (const auto& [source, target] : alignment.links) {
    if (!text.empty()) text += ' ';
    text.append(std::to_string(source)).append("-").append(std::to_string(target));
  }
  return text;
}

}  // namespace attend
