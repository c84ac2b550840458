#include "attend/inspect/effects.h"

#include <algorithm>
#include <cmath>

namespace attend {
namespace {

constexpr int64_t kCandidates = 20;

/// The log-probability of a token among the candidates; a token that is not listed is at most as likely as the last.
double log_share(const std::vector<ShownCandidate>& candidates, int32_t id) {
  const auto found = std::ranges::find(candidates, id, [](const ShownCandidate& one) { return one.token.id; });
  return std::log(std::max((found == candidates.end() ? candidates.back() : *found).probability, 1e-30));
}

double loss_of(const RunOutput& before, const RunOutput& after) {
  if (before.kind == RunOutput::Kind::labels) {
    const auto now = std::ranges::find(after.labels, before.labels.front().name, &ShownLabel::name);
    if (before.are_values) return std::abs(before.labels.front().score - now->score);
    return std::log(std::max(before.labels.front().score, 1e-30)) - std::log(std::max(now->score, 1e-30));
  }
  double sum = 0, rows = 0;
  for (size_t i = 0; i < before.rows.size(); ++i) {
    if (before.rows[i].empty()) continue;
    const ShownCandidate& best = before.rows[i].front();
    sum += std::log(best.probability) - log_share(after.rows[i], best.token.id);
    ++rows;
  }
  return sum / std::max(rows, 1.0);
}

}  // namespace

std::vector<HeadEffect> head_effects(const InspectedModel& model, RunOptions options,
                                     std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  options.candidates = kCandidates;
  const Run before = capture(model, options);
  if (before.output.kind == RunOutput::Kind::none) return {};
  if (model.model->kind() == ModelKind::translation) options.target = before.sides[1].text;
  std::vector<HeadEffect> effects;
  for (size_t a = 0; a < before.attention.size(); ++a) {
    for (int64_t head = 0; head < before.attention[a].heads(); ++head) {
      if (std::chrono::steady_clock::now() > end) return {};
      RunOptions without = options;
      without.heads.push_back({.attention = static_cast<int64_t>(a), .head = head});
      const double loss = loss_of(before.output, capture(model, without).output);
      effects.push_back({.attention = static_cast<int64_t>(a), .head = head, .loss = loss});
    }
  }
  std::ranges::stable_sort(effects, std::ranges::greater{}, &HeadEffect::loss);
  return effects;
}

}  // namespace attend
