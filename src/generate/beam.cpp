#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "attend/base/error.h"
#include "generate/constrained.h"
#include "generate/numbers.h"
#include "generate/writer.h"

namespace attend {
namespace {

/// An unfinished hypothesis and its row in the decoder.
struct Live {
  std::vector<int32_t> ids;
  double log_probability = 0, counted = 0;  // see WrittenNode
  int64_t row = 0;
  Constrained constrained;
};

struct Candidate {
  double log_probability = 0, counted = 0;
  size_t parent = 0;  // rank among the live hypotheses
  int32_t id = 0;
};

bool is_better(const Candidate& a, const Candidate& b) {
  return std::tuple(-a.counted, a.parent, a.id) < std::tuple(-b.counted, b.parent, b.id);
}

bool ranks_before(const Hypothesis& a, const Hypothesis& b) {
  return a.score != b.score ? a.score > b.score : a.ids < b.ids;
}

class Beam final : public Writer {
 public:
  explicit Beam(const WriterConfig& config)
      : options_(config.options),
        vocabulary_(config.vocabulary),
        rules_(config.rules()),
        has_rules_(ScoreRules::are_needed(config.options.rules)),
        limit_(config.limit) {
    live_.push_back({.ids = {}, .constrained = Constrained(options_)});
    kept_ = options_.stop == SearchStop::likely ? options_.beam : options_.n_best;
    parents_.resize(static_cast<size_t>(options_.beam));
    std::iota(parents_.begin(), parents_.end(), 0);
    ids_.assign(parents_.size(), config.vocabulary.begin);
  }

  void advance(const StepRows& step) override {
    std::vector<Candidate> all = candidates(step);
    const size_t width = parents_.size(),
                 most = std::min(all.size(), candidate_count(std::ssize(parents_), vocabulary_));
    std::ranges::partial_sort(all, all.begin() + static_cast<ptrdiff_t>(most), is_better);
    const bool is_last = !options_.ends_at_limit && length_ + 1 == limit_;
    std::vector<Candidate> next;
    std::vector<size_t> places;  // index of each candidate in nodes_
    nodes_.clear();
    for (size_t rank = 0; rank < most; ++rank) {
      const Candidate& one = all[rank];
      nodes_.push_back({.from = live_[one.parent].row,
                        .id = one.id,
                        .log_probability = one.log_probability,
                        .counted = one.counted});
      if (!is_last && !ends(one)) {
        if (next.size() < width) next.push_back(one), places.push_back(rank);
      } else if (rank < width) {
        nodes_.back().is_cut = finish(one);
        nodes_.back().is_finished = true;
      }
    }
    go_on(next);
    for (size_t i = 0; i < places.size(); ++i) nodes_[places[i]].row = live_[i].row;
    if (live_.empty() && finished_.empty() && has_dead_end_) Constrained::fail();
    require<Error>(!live_.empty() || !finished_.empty(), "search: the model gives every token a probability of 0");
  }

  int64_t best_needed() const override {
    if (rules_.forced(length_) >= 0) return 1;
    if (has_rules_ || options_.constraint || length_ == limit_) return 0;
    const int64_t count =
        static_cast<int64_t>(candidate_count(options_.beam, vocabulary_)) + std::ssize(vocabulary_.banned);
    return count <= kMostBest ? count : 0;
  }

  bool is_done() const override {
    if (live_.empty()) return true;
    if (options_.stop == SearchStop::eager && finished_count_ >= options_.beam) return true;
    return std::ssize(finished_) == kept_ && best_possible() <= finished_.back().score;
  }

  std::vector<Hypothesis> take() override {
    if (std::ssize(finished_) > options_.n_best) finished_.resize(static_cast<size_t>(options_.n_best));
    return std::move(finished_);
  }

 private:
  std::vector<Candidate> candidates(const StepRows& step) {
    std::vector<Candidate> all;
    for (size_t parent = 0; parent < live_.size(); ++parent) {
      const Live& live = live_[parent];
      const auto add = [&](int32_t id, double log_probability, double counted) {
        if (counted == -INFINITY) return;
        all.push_back({live.log_probability + log_probability, live.counted + counted, parent, id});
      };
      if (const int32_t id = rules_.forced(length_); id >= 0) {
        add(id, 0, 0);
        continue;
      }
      step.require_numbers(live.row, "search");
      if (length_ == limit_) {
        const double end = step.log_probability(live.row, vocabulary_.end());
        add(vocabulary_.end(), end, end);
        continue;
      }
      for (const Continuation& c : best_of(live, step)) {
        const double own = step.log_probability(live.row, c.id);
        add(c.id, own, is_greedy() || !has_rules_ ? own : static_cast<double>(c.value));
      }
    }
    return all;
  }

  bool is_greedy() const { return options_.beam == 1; }

  /// The best continuations of a hypothesis, with their scores after the generation rules.
  const std::vector<Continuation>& best_of(const Live& live, const StepRows& step) {
    const auto count = static_cast<int64_t>(candidate_count(options_.beam, vocabulary_));
    if (!has_rules_ && !live.constrained) {
      step.best_of(live.row, count, vocabulary_, best_);
      return best_;
    }
    if (is_greedy()) {
      const auto logits = step.logits_of(live.row, vocabulary_.size);
      scores_.assign(logits.begin(), logits.end());
    } else {
      step.log_probabilities_of(live.row, vocabulary_.size, scores_);
    }
    if (has_rules_) rules_.apply(scores_, live.ids);
    if (!live.constrained.apply(scores_, vocabulary_)) {  // this hypothesis is dropped
      has_dead_end_ = true;
      best_.clear();
      return best_;
    }
    top_values(scores_, count, best_);
    if (live.constrained) std::erase_if(best_, [](const Continuation& c) { return c.value == -INFINITY; });
    return best_;
  }

  /// Whether a candidate completes its text.
  bool ends(const Candidate& candidate) const { return vocabulary_.is_end(candidate.id) || is_whole(candidate); }

  /// Whether a candidate completes its text without an end token: the vocabulary has none.
  bool is_whole(const Candidate& candidate) const {
    if (!options_.constraint || !vocabulary_.ends.empty()) return false;
    Constrained next = live_[candidate.parent].constrained;
    next.push(candidate.id);
    return next.ends_itself(vocabulary_);
  }

  /// Finishes a hypothesis. Returns whether it was truncated at the limit.
  bool finish(const Candidate& candidate) {
    ++finished_count_;
    const bool has_end = vocabulary_.is_end(candidate.id);
    Hypothesis hypothesis{.ids = live_[candidate.parent].ids,
                          .log_probability = candidate.log_probability,
                          .score = hypothesis_score(candidate.counted, length_, options_.length_penalty),
                          .is_cut = length_ == limit_ || !ends(candidate) || rules_.is_forced_last(length_)};
    if (!has_end) hypothesis.ids.push_back(candidate.id);
    const bool is_cut = hypothesis.is_cut;
    finished_.insert(std::ranges::upper_bound(finished_, hypothesis, ranks_before), std::move(hypothesis));
    if (std::ssize(finished_) > kept_) finished_.pop_back();
    return is_cut;
  }

  /// Makes the candidates the live hypotheses. One child of each parent stays in the parent's row, so that as few rows
  /// as possible are copied; the others take free rows.
  void go_on(const std::vector<Candidate>& next) {
    const bool is_first = length_ == 0;  // all rows are still equal: they hold only the prompt
    std::vector<bool> taken(parents_.size());
    std::vector<int64_t> rows(next.size(), -1);
    for (size_t i = 0; i < next.size(); ++i) {
      const int64_t row = live_[next[i].parent].row;
      if (taken[static_cast<size_t>(row)]) continue;
      taken[static_cast<size_t>(row)] = true;
      rows[i] = row;
    }
    std::iota(parents_.begin(), parents_.end(), 0);
    std::vector<Live> live;
    for (size_t i = 0, free = 0; i < next.size(); ++i) {
      const Live& parent = live_[next[i].parent];
      if (rows[i] < 0) {
        while (taken[free]) ++free;
        taken[free] = true;
        rows[i] = static_cast<int64_t>(free);
        if (!is_first) parents_[free] = parent.row;
      }
      ids_[static_cast<size_t>(rows[i])] = next[i].id;
      live.push_back({parent.ids, next[i].log_probability, next[i].counted, rows[i], parent.constrained});
      live.back().ids.push_back(next[i].id);
      live.back().constrained.push(next[i].id);
    }
    live_ = std::move(live);
    ++length_;
  }

  /// An upper bound of the score of any live hypothesis: log p only falls, and the divisor is largest at the maximum
  /// length (α > 0) or at the next one (α < 0). SearchStop::likely uses the best current score instead, as transformers
  /// does.
  double best_possible() const {
    const double counted = live_[0].counted, penalty = options_.length_penalty;
    if (options_.stop == SearchStop::likely) return hypothesis_score(counted, length_ - 1, penalty);
    const int64_t longest = options_.ends_at_limit ? limit_ : limit_ - 1;  // without the end token
    return hypothesis_score(counted, penalty > 0 ? longest : length_, penalty);
  }

  const SearchOptions& options_;
  const Vocabulary& vocabulary_;
  ScoreRules rules_;
  bool has_rules_;
  std::vector<float> scores_;       // of one row, after the rules
  std::vector<Continuation> best_;  // the best of scores_
  int64_t limit_, kept_ = 1;
  int64_t length_ = 0;  // tokens of each live hypothesis
  std::vector<Live> live_;
  std::vector<Hypothesis> finished_;  // the n best, best first
  int64_t finished_count_ = 0;
  bool has_dead_end_ = false;  // a hypothesis was dropped because of the constraint
};

}  // namespace

size_t candidate_count(int64_t beam, const Vocabulary& vocabulary) {
  const auto ends = std::max<int64_t>(std::ssize(vocabulary.ends), 1);
  return static_cast<size_t>(beam == 1 ? 1 : (1 + ends) * beam);
}

std::unique_ptr<Writer> create_beam(const WriterConfig& config) { return std::make_unique<Beam>(config); }

double hypothesis_score(double log_probability, int64_t length, double length_penalty) {
  return log_probability / std::pow(static_cast<double>(length + 1), length_penalty);
}

}  // namespace attend
