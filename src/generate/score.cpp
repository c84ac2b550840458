#include "attend/generate/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/embedding.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"
#include "generate/numbers.h"
#include "generate/top.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // rows of logits in memory, each as long as the vocabulary

using Sequences = std::vector<std::vector<int32_t>>;

/// One input sequence and the expected next token (label) at each position.
struct Reading {
  std::vector<int32_t> ids, labels;
  size_t text = 0;     // index of the text
  size_t place = 0;    // position of labels[0] in the text
  size_t skipped = 0;  // number of leading labels that an earlier reading has scored
};

/// log p of labels[i] given hidden[i]. `hidden` is [count, dim].
std::vector<double> label_log_probabilities(const Head& head, const Tensor& hidden, std::span<const int64_t> labels) {
  std::vector<double> result;
  for (int64_t begin = 0; begin < hidden.dim(0); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, hidden.dim(0));
    const Tensor logs = log_softmax(head.logits(contiguous(slice(hidden, 0, begin, end))));
    const auto chosen = labels.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto values = gather(logs, from_span<int64_t>(chosen, {end - begin, 1})).to_vector<double>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

/// Adds the log probabilities of one batch of readings to the scores. `hidden` is [batch, longest, dim].
void add_scores(const Head& head, const Tensor& hidden, std::span<const Reading> readings, const Batch& batch,
                std::vector<TextScore>& scores) {
  const int64_t longest = hidden.dim(1);
  std::vector<int64_t> labels(static_cast<size_t>(hidden.dim(0) * longest));
  for (size_t row = 0; row < batch.size(); ++row) {
    std::ranges::copy(readings[static_cast<size_t>(batch[row])].labels,
                      labels.begin() + static_cast<ptrdiff_t>(row) * longest);
  }
  const auto logs = label_log_probabilities(head, reshape(hidden, {-1, hidden.dim(2)}), labels);
  for (size_t row = 0; row < batch.size(); ++row) {
    const Reading& reading = readings[static_cast<size_t>(batch[row])];
    TextScore& score = scores[reading.text];
    for (size_t i = reading.skipped; i < reading.labels.size(); ++i) {
      score.log_probabilities[reading.place + i] = logs[row * static_cast<size_t>(longest) + i];
    }
  }
}

void sum_up(std::vector<TextScore>& scores) {
  for (TextScore& score : scores) {
    score.log_probability = std::accumulate(score.log_probabilities.begin(), score.log_probabilities.end(), 0.0);
    require_number(score.log_probability, "score");
  }
}

std::vector<int64_t> lengths_of(std::span<const Reading> readings) {
  std::vector<int64_t> lengths;
  for (const Reading& reading : readings) lengths.push_back(std::ssize(reading.ids));
  return lengths;
}

Sequences ids_of(std::span<const Reading> readings) {
  Sequences ids;
  for (const Reading& reading : readings) ids.push_back(reading.ids);
  return ids;
}

/// Splits a text into windows of at most `context` ids. Each window after the first begins with half a context of ids
/// that are already scored.
void add_windows(std::vector<Reading>& readings, const std::vector<int32_t>& ids, int64_t context, size_t text) {
  const auto count = std::ssize(ids) - 1;  // labels; the first id is input only
  for (int64_t begin = 0, scored = 0; scored < count;) {
    const int64_t end = std::min(begin + context, count);
    readings.push_back({.ids = {ids.begin() + begin, ids.begin() + end},
                        .labels = {ids.begin() + begin + 1, ids.begin() + end + 1},
                        .text = text,
                        .place = static_cast<size_t>(begin),
                        .skipped = static_cast<size_t>(scored - begin)});
    scored = end;
    begin = end - context / 2;
  }
}

}  // namespace

std::vector<TextScore> score_pairs(const PairModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> sources, std::span<const std::string> targets,
                                   const ScoreOptions& options) {
  require<ShapeError>(sources.size() == targets.size(), "score: there are ", sources.size(), " sources but ",
                      targets.size(), " targets");
  const Vocabulary vocabulary = Vocabulary::of(tokenizer, model.vocab_size(), options.rules);
  require<FormatError>(vocabulary.end() >= 0, "score: the tokenizer has no end-of-sequence token");
  const NoGrad scope;
  const BatchInvariantScope alone;  // a text has the same scores in any batch
  std::vector<TextScore> scores(sources.size());
  Sequences read;
  std::vector<Reading> readings;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < sources.size(); ++i) {
    FramedText source = frame_source(tokenizer, sources[i], model.context(), options.rules.prefix);
    FramedText target = frame_target(tokenizer, targets[i], model.context());
    Reading reading{.ids = {vocabulary.begin}, .labels = target.ids, .text = i};
    reading.ids.insert(reading.ids.end(), target.ids.begin(), target.ids.end() - 1);
    lengths.push_back(std::max(std::ssize(source.ids), std::ssize(target.ids)));
    scores[i].is_cut = source.is_cut || target.is_cut;
    scores[i].log_probabilities.resize(target.ids.size());
    scores[i].ids = std::move(target.ids);
    read.push_back(std::move(source.ids));
    readings.push_back(std::move(reading));
  }
  const Sequences written = ids_of(readings);
  for (const Batch& batch : group_by_length(lengths, {.tokens = options.batch_tokens})) {
    const IdRows source = pad_rows(read, batch), target = pad_rows(written, batch);
    const Tensor hidden = model.hidden({.source = source.ids, .source_lengths = source.lengths, .target = target.ids});
    add_scores(model.head(), hidden, readings, batch, scores);
  }
  sum_up(scores);
  return scores;
}

std::vector<TextScore> score_texts(const LanguageModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const ScoreOptions& options) {
  Vocabulary::of(tokenizer, model.vocab_size(), options.rules);  // throws if tokenizer and model do not match
  const NoGrad scope;
  const BatchInvariantScope alone;  // a text has the same scores in any batch
  std::vector<TextScore> scores(texts.size());
  std::vector<Reading> readings;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (tokenizer.encode(texts[i]).empty()) continue;
    std::vector<int32_t> ids = frame_prompt(tokenizer, texts[i], options.rules.as_transformers);
    const int32_t start = options.rules.as_transformers ? tokenizer.special().begin : text_start(tokenizer.special());
    const bool is_there = options.rules.as_transformers && ids[0] == start;
    if (start >= 0 && !is_there) ids.insert(ids.begin(), start);
    add_windows(readings, ids, model.context(), i);
    scores[i].ids.assign(ids.begin() + 1, ids.end());
    scores[i].log_probabilities.resize(scores[i].ids.size());
  }
  const Sequences rows = ids_of(readings);
  for (const Batch& batch : group_by_length(lengths_of(readings), {.tokens = options.batch_tokens})) {
    add_scores(model.head(), model.hidden(pad_rows(rows, batch).ids), readings, batch, scores);
  }
  sum_up(scores);
  return scores;
}

double perplexity(std::span<const TextScore> scores) {
  double total = 0, words = 0;
  for (const TextScore& score : scores) {
    total += score.log_probability;
    words += static_cast<double>(score.log_probabilities.size());
  }
  return words > 0 ? std::exp(-total / words) : 1;
}

}  // namespace attend
