#include <algorithm>
#include <chrono>
#include <cmath>

#include "attend/base/error.h"
#include "attend/generate/classify.h"
#include "attend/train/measure.h"
#include "train/broadcast.h"
#include "train/file_bytes.h"

namespace attend {
namespace {

constexpr size_t kTextsAtOnce = 512;
constexpr double kLeastProbability = 1e-300;  // replaces a probability of 0, so that the loss stays finite

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Compares predicted labels with expected ones.
class LabelMeasurer {
 public:
  LabelMeasurer(const EncoderModel& model, const Tokenizer& tokenizer)
      : model_(model), tokenizer_(tokenizer), known_(model.labels().size()) {
    for (const std::string& label : model.labels()) add_label(label);
  }

  void add(const std::vector<Example>& examples) {
    std::vector<std::string> texts;
    for (const Example& example : examples) texts.push_back(example.source);
    const int64_t width = 2 + static_cast<int64_t>(known_);
    const auto numbers = divided_range(std::ssize(texts), width, [&](int64_t begin, int64_t end) {
      const auto part = std::span(texts).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      return numbers_of(classify(model_, tokenizer_, part));
    });
    for (size_t i = 0; i < examples.size(); ++i) {
      const auto own = numbers.begin() + static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(width);
      add(examples[i].target, {.label = static_cast<int64_t>(own[0]),
                               .scores = {own + 2, own + static_cast<std::ptrdiff_t>(width)},
                               .tokens = static_cast<int64_t>(own[1])});
    }
  }

  LabelMeasures result() const {
    LabelMeasures result = result_;
    result.loss = result_.loss / static_cast<double>(std::max<int64_t>(result.texts - result.unknown, 1));
    for (size_t expected = 0; expected < result.labels.size(); ++expected) {
      for (size_t chosen = 0; chosen < result.labels.size(); ++chosen) {
        const int64_t count = result.confusion[expected][chosen];
        result.labels[expected].expected += count;
        result.labels[chosen].chosen += count;
        if (expected == chosen) result.labels[expected].right = count;
      }
    }
    for (const LabelScore& label : result.labels) result.right += label.right;
    return result;
  }

 private:
  /// Of each answer: label, tokens, and the scores of all labels.
  std::vector<double> numbers_of(const std::vector<Classified>& answers) const {
    std::vector<double> numbers;
    for (const Classified& answer : answers) {
      numbers.push_back(static_cast<double>(answer.label));
      numbers.push_back(static_cast<double>(answer.tokens));
      std::vector<double> scores = answer.scores;
      scores.resize(known_);  // a blank text has none
      numbers.insert(numbers.end(), scores.begin(), scores.end());
    }
    return numbers;
  }

  size_t number_of(const std::string& label) {
    const auto found = std::ranges::find(result_.labels, label, &LabelScore::label);
    if (found != result_.labels.end()) return static_cast<size_t>(found - result_.labels.begin());
    add_label(label);
    return result_.labels.size() - 1;
  }

  void add_label(const std::string& label) {
    result_.labels.push_back({.label = label});
    result_.confusion.emplace_back();
    for (auto& row : result_.confusion) row.resize(result_.labels.size());
  }

  void add(const std::string& label, const Classified& answer) {
    if (answer.label < 0) return;  // no token of the text is in the vocabulary, so there is no prediction
    const size_t expected = number_of(label);
    ++result_.confusion[expected][static_cast<size_t>(answer.label)];
    ++result_.texts;
    result_.tokens += answer.tokens;
    if (expected >= known_)
      ++result_.unknown;
    else
      result_.loss -= std::log(std::max(answer.scores[expected], kLeastProbability));
  }

  const EncoderModel& model_;
  const Tokenizer& tokenizer_;
  size_t known_;
  LabelMeasures result_;  // counts and the sum of losses
};

}  // namespace

double LabelScore::precision() const { return ratio(right, chosen); }
double LabelScore::recall() const { return ratio(right, expected); }
double LabelScore::f1() const { return ratio(2 * right, expected + chosen); }

double LabelMeasures::accuracy() const { return ratio(right, texts); }

double LabelMeasures::macro_f1() const {
  double sum = 0;
  int64_t count = 0;
  for (const LabelScore& label : labels) {
    if (label.expected == 0) continue;
    sum += label.f1();
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

LabelMeasures measure_labels(const EncoderModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                             const std::function<void(double share)>& progress) {
  require<Error>(!model.labels().empty(), "this encoder has no labels: it was trained by masked language modelling");
  require<Error>(model.label_scores() == LabelScores::shares,
                 "this model's labels are not mutually exclusive: expected a model with one label per text");
  const auto start = std::chrono::steady_clock::now();
  LabelMeasurer measurer(model, tokenizer);
  CorpusReader reader(corpus);
  std::vector<Example> examples;
  const double total = bytes_of(corpus.files);
  double read = 0;
  for (Example example; reader.next(example);) {
    read += static_cast<double>(example.source.size() + example.target.size() + 2);  // + 2: tab and line feed
    examples.push_back(std::move(example));
    if (examples.size() < kTextsAtOnce) continue;
    measurer.add(examples);
    examples.clear();
    if (progress) progress(total > 0 ? std::min(read / total, 1.0) : -1);
  }
  measurer.add(examples);
  LabelMeasures result = measurer.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace attend
