#include <algorithm>
#include <numeric>

#include "generate/numbers.h"
#include "generate/writer.h"

namespace attend {
namespace {

/// Independent samples for one source, a row each.
class Sampler final : public Writer {
 public:
  explicit Sampler(const WriterConfig& config)
      : options_(config.options),
        vocabulary_(config.vocabulary),
        rules_(config.rules()),
        limit_(config.limit),
        index_(config.index),
        samples_(static_cast<size_t>(options_.n_best)),
        is_finished_(samples_.size()) {
    parents_.resize(samples_.size());
    std::iota(parents_.begin(), parents_.end(), 0);
    ids_.assign(samples_.size(), vocabulary_.begin);
  }

  void advance(const StepRows& step) override {
    nodes_.clear();
    for (size_t copy = 0; copy < samples_.size(); ++copy) {
      if (!is_finished_[copy]) advance(copy, step);
    }
    ++length_;
  }

  bool is_done() const override {
    return std::ranges::all_of(is_finished_, [](bool finished) { return finished; });
  }

  std::vector<Hypothesis> take() override { return std::move(samples_); }

 private:
  void advance(size_t copy, const StepRows& step) {
    Hypothesis& sample = samples_[copy];
    const auto row = static_cast<int64_t>(copy);
    require_number(step.log_probability(row, 0), "sampling");
    const int32_t forced = rules_.forced(length_);
    const bool is_over = options_.ends_at_limit && length_ == limit_;  // nothing but the end has room
    const int32_t id = forced >= 0 ? forced : is_over ? vocabulary_.end() : drawn(copy, step);
    if (forced < 0) sample.log_probability += step.log_probability(row, id);
    require_number(sample.log_probability, "sampling");  // an infinite logit is the only one that has none
    const bool is_end = vocabulary_.is_end(id), is_last = !options_.ends_at_limit && length_ + 1 == limit_;
    const bool is_finished = is_end || is_last;
    sample.is_cut = is_over || (is_last && !is_end) || rules_.is_forced_last(length_);
    nodes_.push_back({.from = row,
                      .row = is_finished ? -1 : row,
                      .id = id,
                      .log_probability = sample.log_probability,
                      .counted = sample.log_probability,
                      .is_finished = is_finished});
    if (!is_end) sample.ids.push_back(id);
    ids_[copy] = id;
    if (!is_finished) return;
    sample.score = hypothesis_score(sample.log_probability, length_, options_.length_penalty);
    is_finished_[copy] = true;
  }

  int32_t drawn(size_t copy, const StepRows& step) {
    const Hypothesis& sample = samples_[copy];
    std::span<const float> logits = step.logits_of(static_cast<int64_t>(copy), vocabulary_.size);
    if (ScoreRules::are_needed(options_.rules)) {
      scores_.assign(logits.begin(), logits.end());
      rules_.apply(scores_, sample.ids);
      logits = scores_;
    }
    return draw({.logits = logits, .history = sample.ids, .banned = vocabulary_.banned}, *options_.sampling,
                {.text = index_, .copy = static_cast<uint32_t>(copy), .position = static_cast<uint32_t>(length_)});
  }

  const SearchOptions& options_;
  const Vocabulary& vocabulary_;
  ScoreRules rules_;
  std::vector<float> scores_;
  int64_t limit_;
  uint64_t index_;
  std::vector<Hypothesis> samples_;
  std::vector<bool> is_finished_;
  int64_t length_ = 0;
};

}  // namespace

std::unique_ptr<Writer> create_sampler(const WriterConfig& config) { return std::make_unique<Sampler>(config); }

}  // namespace attend
