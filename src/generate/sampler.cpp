#include "generate/constrained.h"
#include "generate/numbers.h"
#include "generate/writer.h"

namespace attend {
namespace {

/// Samples one text token by token.
class Sampler final : public Writer {
 public:
  explicit Sampler(const WriterConfig& config) : config_(config), rules_(config.rules()), constrained_(config.options) {
    if (config.counts_prompt) history_.assign(config.before.begin(), config.before.end());
    parents_ = {0};
    ids_ = {config.vocabulary.begin};
  }

  void advance(const StepRows& step) override {
    step.require_numbers(0, "generate");
    const SearchOptions& options = config_.options;
    const int64_t length = std::ssize(sample_.ids);
    const int32_t forced = rules_.forced(length);
    const bool is_over = options.ends_at_limit && length == config_.limit;  // only the end token fits
    const int32_t id = forced >= 0 ? forced : is_over ? config_.vocabulary.end() : drawn(step);
    if (forced < 0) sample_.log_probability += step.log_probability(0, id);
    require_number(sample_.log_probability, "generate");  // NaN only if a logit is infinite
    const bool is_end = config_.vocabulary.is_end(id), is_last = !options.ends_at_limit && length + 1 == config_.limit;
    if (!is_end) constrained_.push(id);
    const bool is_whole = is_end || constrained_.ends_itself(config_.vocabulary);
    is_finished_ = is_whole || is_last;
    sample_.is_cut = is_over || (is_last && !is_whole) || rules_.is_forced_last(length);
    sample_.score = hypothesis_score(sample_.log_probability, length, options.length_penalty);
    nodes_ = {{.from = 0,
               .row = is_finished_ ? -1 : 0,
               .id = id,
               .log_probability = sample_.log_probability,
               .counted = sample_.log_probability,
               .is_finished = is_finished_,
               .is_cut = is_finished_ && sample_.is_cut}};
    ids_[0] = id;
    if (is_end) return;
    sample_.ids.push_back(id);
    history_.push_back(id);
  }

  int64_t best_needed() const override {
    const SearchOptions& options = config_.options;
    const SamplingOptions& sampling = *options.sampling;
    const int64_t length = std::ssize(sample_.ids);
    if (rules_.forced(length) >= 0) return 1;
    const bool is_over = options.ends_at_limit && length == config_.limit;
    if (is_over || has_rules() || sampling.has_adjustments()) return 0;
    if (static_cast<float>(sampling.temperature) != 0 && (sampling.top_k == 0 || sampling.top_k > kMostBest)) return 0;
    const int64_t count = kept(sampling) + std::ssize(config_.vocabulary.banned);
    return count <= kMostBest ? count : 0;
  }

  bool is_done() const override { return is_finished_; }

  std::vector<Hypothesis> take() override { return {std::move(sample_)}; }

 private:
  /// Whether logits are changed before a token is drawn.
  bool has_rules() const { return ScoreRules::are_needed(config_.options.rules) || constrained_; }

  /// The number of best tokens from which one is drawn; only with top_k or with temperature 0.
  static int64_t kept(const SamplingOptions& sampling) {
    return static_cast<float>(sampling.temperature) == 0 ? 1 : sampling.top_k;
  }

  DrawPlace place() const {
    return {.text = config_.index, .copy = config_.copy, .position = static_cast<uint32_t>(sample_.ids.size())};
  }

  int32_t drawn(const StepRows& step) {
    if (!step.has_all()) {
      std::vector<Continuation> best;
      step.best_of(0, kept(*config_.options.sampling), config_.vocabulary, best);
      return draw_among(std::move(best), *config_.options.sampling, place());
    }
    std::span<const float> logits = step.logits_of(0, config_.vocabulary.size);
    if (has_rules()) {
      scores_.assign(logits.begin(), logits.end());
      if (ScoreRules::are_needed(config_.options.rules)) rules_.apply(scores_, sample_.ids);
      if (!constrained_.apply(scores_, config_.vocabulary)) Constrained::fail();
      logits = scores_;
    }
    return draw({.logits = logits, .history = history_, .written = sample_.ids, .banned = config_.vocabulary.banned},
                *config_.options.sampling, place());
  }

  const WriterConfig config_;
  ScoreRules rules_;
  Constrained constrained_;
  std::vector<int32_t> history_;  // tokens that the repetition penalty counts
  std::vector<float> scores_;     // logits after the rules
  Hypothesis sample_;
  bool is_finished_ = false;
};

}  // namespace

std::unique_ptr<Writer> create_sampler(const WriterConfig& config) { return std::make_unique<Sampler>(config); }

}  // namespace attend
