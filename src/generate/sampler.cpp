#include <algorithm>
#include <numeric>

#include "generate/writer.h"

namespace attend {
namespace {

/// Independent samples for one source, a row each.
class Sampler final : public Writer {
 public:
  explicit Sampler(const WriterConfig& config)
      : options_(config.options),
        vocabulary_(config.vocabulary),
        limit_(config.limit),
        index_(config.index),
        samples_(static_cast<size_t>(options_.n_best)),
        is_finished_(samples_.size()) {
    parents_.resize(samples_.size());
    std::iota(parents_.begin(), parents_.end(), 0);
    words_.assign(samples_.size(), vocabulary_.begin);
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
    sample.is_cut = length_ == limit_;
    const bool is_forced = length_ == 0 && options_.rules.forced_first >= 0;
    const int32_t id =
        is_forced ? options_.rules.forced_first
        : sample.is_cut
            ? vocabulary_.end()
            : draw({.logits = step.logits_of(row, vocabulary_.words),
                    .history = sample.ids,
                    .banned = vocabulary_.banned},
                   *options_.sampling,
                   {.text = index_, .copy = static_cast<uint32_t>(copy), .position = static_cast<uint32_t>(length_)});
    sample.log_probability += step.log_probability(row, id);
    const bool is_end = vocabulary_.is_end(id);
    nodes_.push_back({.from = row,
                      .row = is_end ? -1 : row,
                      .id = id,
                      .log_probability = sample.log_probability,
                      .is_finished = is_end});
    if (is_end) {
      sample.score = hypothesis_score(sample.log_probability, length_, options_.length_penalty);
      is_finished_[copy] = true;
    } else {
      sample.ids.push_back(id);
      words_[copy] = id;
    }
  }

  const SearchOptions& options_;
  const Vocabulary& vocabulary_;
  int64_t limit_;
  uint64_t index_;
  std::vector<Hypothesis> samples_;
  std::vector<bool> is_finished_;
  int64_t length_ = 0;
};

}  // namespace

std::unique_ptr<Writer> create_sampler(const WriterConfig& config) { return std::make_unique<Sampler>(config); }

}  // namespace attend
