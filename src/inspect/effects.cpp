#include "attend/inspect/effects.h"

#include <algorithm>
#include <cmath>

#include "attend/ops/shape.h"
#include "inspect/logits.h"

namespace attend {
namespace {

constexpr int64_t kCandidates = 20;

/// The log-probabilities of a run's predictions.
class Shares {
 public:
  Shares(const Model& model, const Run& run) : model_(model), run_(run) {}

  /// All logits are computed only if a token is not among the candidates.
  double log_share(size_t place, int32_t id) {
    const auto& candidates = run_.output.rows[place];
    const auto found = std::ranges::find(candidates, id, [](const ShownCandidate& one) { return one.token.id; });
    if (found != candidates.end()) return found->logit - run_.output.totals[place];
    if (!logits_) logits_ = run_logits(model_, run_);
    const Tensor own = slice(select(logits_, 0, static_cast<int64_t>(place)), 0, id, id + 1);
    return to(to(own, DType::f32), kCpu).to_vector<double>()[0] - run_.output.totals[place];
  }

 private:
  const Model& model_;
  const Run& run_;
  Tensor logits_;
};

double loss_of(const Model& model, const RunOutput& before, const Run& run) {
  const RunOutput& after = run.output;
  if (before.kind == RunOutput::Kind::labels) {
    const auto now = std::ranges::find(after.labels, before.labels.front().name, &ShownLabel::name);
    if (before.are_values) return std::abs(before.labels.front().score - now->score);
    return std::log(std::max(before.labels.front().score, 1e-30)) - std::log(std::max(now->score, 1e-30));
  }
  double sum = 0, rows = 0;
  Shares shares(model, run);
  for (size_t i = 0; i < before.rows.size(); ++i) {
    if (before.rows[i].empty()) continue;
    const ShownCandidate& best = before.rows[i].front();
    sum += best.logit - before.totals[i] - shares.log_share(i, best.token.id);
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
      const double loss = loss_of(*model.model, before.output, capture(model, without));
      effects.push_back({.attention = static_cast<int64_t>(a), .head = head, .loss = loss});
    }
  }
  std::ranges::stable_sort(effects, std::ranges::greater{}, &HeadEffect::loss);
  return effects;
}

}  // namespace attend
