#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "attend/generate/drafts.h"

namespace attend {

/// How long a step with several tokens takes, relative to a step with one. While the step is limited by reading the
/// weights, more tokens cost little. How little depends on the machine, the model and its weights, and follows from the
/// time that earlier steps took.
class StepCost {
 public:
  /// Products of up to this many rows read the weights once and in place. Above it, a step is limited by arithmetic.
  static constexpr int64_t kMostTokens = kMostDraftTokens + 1;

  /// `each`: the cost of each further token; by default measured.
  explicit StepCost(std::optional<double> each = {}) : each_(each) {}

  /// For 1 to kMostTokens tokens.
  double of(int64_t tokens) const {
    const double line = 1 + each_.value_or(slope_) * static_cast<double>(tokens - 1);
    if (each_) return line;
    const Seen& own = seen_[static_cast<size_t>(tokens)];
    return std::max(1.0, (kLineWeight * line + own.weight * own.cost) / (kLineWeight + own.weight));
  }

  /// A step with `tokens` tokens took `seconds`.
  void add(int64_t tokens, double seconds) {
    if (each_ || tokens > kMostTokens || seconds <= 0) return;
    if (single_ <= 0) single_ = seconds / of(tokens);
    // A single slow step counts as at most twice the usual time: the machine may have been busy.
    const double usual = of(tokens), cost = std::clamp(seconds / single_, usual / 2, usual * 2);
    single_ += 0.2 * single_ * (cost / usual - 1);
    for (Seen& one : seen_) one.weight *= kForget;
    if (tokens == 1) return;
    slope_ += 0.1 * (std::max(cost - 1, 0.0) / static_cast<double>(tokens - 1) - slope_);
    Seen& own = seen_[static_cast<size_t>(tokens)];
    own.weight = std::min(own.weight + 1, kMostWeight);
    own.cost += (cost - own.cost) / own.weight;
  }

 private:
  /// The mean cost of steps with one number of tokens.
  struct Seen {
    double cost = 0, weight = 0;
  };
  static constexpr double kLineWeight = 2;   // of the line that holds for all numbers of tokens
  static constexpr double kMostWeight = 10;  // later steps change a mean by a tenth
  static constexpr double kForget = 0.998;   // a number of tokens that looked slow is tried again some time

  std::optional<double> each_;
  double single_ = 0;   // seconds of a step with one token; 0: unknown
  double slope_ = 0.1;  // mean cost of a further token
  std::array<Seen, kMostTokens + 1> seen_{};
};

}  // namespace attend
