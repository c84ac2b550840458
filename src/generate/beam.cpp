#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "attend/base/error.h"
#include "generate/writer.h"

namespace attend {
namespace {

/// A hypothesis that has not ended, and the row of the decoder that holds it.
struct Live {
  std::vector<int32_t> ids;
  double log_probability = 0;
  int64_t row = 0;
};

struct Candidate {
  double log_probability = 0;
  size_t parent = 0;  // rank among the live
  int32_t id = 0;
};

bool is_better(const Candidate& a, const Candidate& b) {
  return std::tuple(-a.log_probability, a.parent, a.id) < std::tuple(-b.log_probability, b.parent, b.id);
}

bool ranks_before(const Hypothesis& a, const Hypothesis& b) {
  return a.score != b.score ? a.score > b.score : a.ids < b.ids;
}

class Beam final : public Writer {
 public:
  explicit Beam(const WriterConfig& config)
      : options_(config.options), vocabulary_(config.vocabulary), limit_(config.limit), live_(1) {
    kept_ = options_.stop == SearchStop::likely ? options_.beam : options_.n_best;
    parents_.resize(static_cast<size_t>(options_.beam));
    std::iota(parents_.begin(), parents_.end(), 0);
    words_.assign(parents_.size(), config.vocabulary.begin);
  }

  void advance(const StepRows& step) override {
    std::vector<Candidate> all = candidates(step);
    const size_t width = parents_.size(),
                 most = std::min(all.size(), candidate_count(std::ssize(parents_), vocabulary_));
    std::ranges::partial_sort(all, all.begin() + static_cast<ptrdiff_t>(most), is_better);
    const bool is_last = !options_.ends_at_limit && length_ + 1 == limit_;
    std::vector<Candidate> next;
    std::vector<size_t> places;  // of these among the nodes
    nodes_.clear();
    for (size_t rank = 0; rank < most; ++rank) {
      const Candidate& one = all[rank];
      nodes_.push_back({.from = live_[one.parent].row, .id = one.id, .log_probability = one.log_probability});
      if (!is_last && !vocabulary_.is_end(one.id)) {
        if (next.size() < width) next.push_back(one), places.push_back(rank);
      } else if (rank < width) {
        finish(one);
        nodes_.back().is_finished = true;
      }
    }
    go_on(next);
    for (size_t i = 0; i < places.size(); ++i) nodes_[places[i]].row = live_[i].row;
    require<Error>(!live_.empty() || !finished_.empty(), "search: the model gives no word a probability");
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
  std::vector<Candidate> candidates(const StepRows& step) const {
    std::vector<Candidate> all;
    const auto add = [&](size_t parent, int32_t id, double log_probability) {
      if (log_probability > -INFINITY) all.push_back({live_[parent].log_probability + log_probability, parent, id});
    };
    for (size_t parent = 0; parent < live_.size(); ++parent) {
      const int64_t row = live_[parent].row;
      if (const int32_t id = forced_word(); id >= 0) {
        add(parent, id, 0);
      } else if (length_ == limit_) {
        add(parent, vocabulary_.end(), step.log_probability(row, vocabulary_.end()));
      } else {
        for (const Continuation& c : step.best[static_cast<size_t>(row)]) {
          if (is_allowed(live_[parent], c.id)) add(parent, c.id, c.value);
        }
      }
    }
    return all;
  }

  /// The word that the rules write now, whatever the model thinks; -1: none.
  int32_t forced_word() const {
    const GenerationRules& rules = options_.rules;
    if (length_ == 0 && rules.forced_first >= 0) return rules.forced_first;
    return length_ + (options_.ends_at_limit ? 0 : 1) == limit_ ? rules.forced_last : -1;
  }
  /// Whether the rules allow a word behind what is written.
  bool is_allowed(const Live& live, int32_t id) const {
    const GenerationRules& rules = options_.rules;
    if (length_ + 1 < rules.min_length && vocabulary_.is_end(id)) return false;
    return rules.no_repeat == 0 || !repeats(live.ids, id, static_cast<size_t>(rules.no_repeat));
  }
  /// Whether `id` would make the last `run` words, the start counted, stand there a second time.
  bool repeats(const std::vector<int32_t>& ids, int32_t id, size_t run) const {
    std::vector<int32_t> all{vocabulary_.begin};
    all.insert(all.end(), ids.begin(), ids.end());
    all.push_back(id);
    if (all.size() <= run) return false;
    return std::search(all.begin(), all.end() - 1, all.end() - static_cast<ptrdiff_t>(run), all.end()) != all.end() - 1;
  }

  void finish(const Candidate& candidate) {
    ++finished_count_;
    const bool has_end = vocabulary_.is_end(candidate.id);
    Hypothesis hypothesis{.ids = live_[candidate.parent].ids,
                          .log_probability = candidate.log_probability,
                          .score = hypothesis_score(candidate.log_probability, length_, options_.length_penalty),
                          .is_cut = length_ == limit_ || !has_end};
    if (!has_end) hypothesis.ids.push_back(candidate.id);
    finished_.insert(std::ranges::upper_bound(finished_, hypothesis, ranks_before), std::move(hypothesis));
    if (std::ssize(finished_) > kept_) finished_.pop_back();
  }

  /// The candidates become the live hypotheses. One child of each parent stays in its row, so that as few rows as
  /// possible move; the others take rows that are free.
  void go_on(const std::vector<Candidate>& next) {
    const bool is_first = length_ == 0;  // all rows hold the same: nothing
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
      words_[static_cast<size_t>(rows[i])] = next[i].id;
      live.push_back({parent.ids, next[i].log_probability, rows[i]});
      live.back().ids.push_back(next[i].id);
    }
    live_ = std::move(live);
    ++length_;
  }

  /// No live hypothesis can end better: log p only falls, and the divisor is largest at the longest length (α > 0) or
  /// at the next (α < 0). Or, as transformers has it, what the best of them is worth as it stands.
  double best_possible() const {
    if (options_.stop == SearchStop::likely) {
      return hypothesis_score(live_[0].log_probability, length_ - 1, options_.length_penalty);
    }
    const int64_t longest = options_.ends_at_limit ? limit_ : limit_ - 1;  // without the end
    return hypothesis_score(live_[0].log_probability, options_.length_penalty > 0 ? longest : length_,
                            options_.length_penalty);
  }

  const SearchOptions& options_;
  const Vocabulary& vocabulary_;
  int64_t limit_, kept_ = 1;
  int64_t length_ = 0;  // words of each live hypothesis
  std::vector<Live> live_;
  std::vector<Hypothesis> finished_;  // the n best, best first
  int64_t finished_count_ = 0;
};

}  // namespace

size_t candidate_count(int64_t beam, const Vocabulary& vocabulary) {
  const auto ends = std::max<int64_t>(std::ssize(vocabulary.ends), 1);
  return static_cast<size_t>(beam == 1 ? 1 : (1 + ends) * beam);
}

std::unique_ptr<Writer> create_beam(const WriterConfig& config) { return std::make_unique<Beam>(config); }

double hypothesis_score(double log_probability, int64_t words, double length_penalty) {
  return log_probability / std::pow(static_cast<double>(words + 1), length_penalty);
}

}  // namespace attend
