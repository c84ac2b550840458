#include "generate/score_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace attend {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void ban(std::span<float> scores, int32_t id) {
  if (id >= 0 && id < std::ssize(scores)) scores[static_cast<size_t>(id)] = kNever;
}

/// Bans every token that would complete an n-gram of `size` tokens at the end of `history` that already occurs in
/// `text`.
void ban_repeats(std::span<float> scores, std::span<const int32_t> text, std::span<const int32_t> history,
                 int64_t size) {
  if (size == 0 || std::ssize(history) < size - 1) return;
  const auto run = history.last(static_cast<size_t>(size - 1));
  for (size_t at = 0; at + run.size() < text.size(); ++at) {
    if (std::ranges::equal(run, text.subspan(at, run.size()))) ban(scores, text[at + run.size()]);
  }
}

/// Subtracts log Σ exp(score) from each score, so that the probabilities add up to 1.
void renormalize(std::span<float> scores) {
  const float largest = *std::ranges::max_element(scores);
  if (largest == kNever) return;
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - static_cast<double>(largest));
  const auto log_sum = static_cast<float>(static_cast<double>(largest) + std::log(sum));
  for (float& score : scores) score -= log_sum;
}

}  // namespace

bool ScoreRules::are_needed(const GenerationRules& rules) {
  return rules.repetition_penalty != 1 || rules.no_repeat > 0 || rules.no_repeat_source > 0 || rules.min_length > 0 ||
         rules.min_new > 0 || rules.renormalizes || !rules.banned_runs.empty() || !rules.banned_first.empty();
}

int32_t ScoreRules::forced(int64_t written) const {
  if (written == 0 && first() == 1) return rules_.forced_first;
  return written == text_.last ? rules_.forced_last : -1;
}

bool ScoreRules::may_end(int64_t written) const {
  if (rules_.min_new > 0) return written >= rules_.min_new;
  return written + std::ssize(text_.before) >= rules_.min_length;
}

void ScoreRules::penalize(std::span<float> scores, std::span<const int32_t> history) const {
  const auto penalty = static_cast<float>(rules_.repetition_penalty);
  for (const int32_t id : std::set<int32_t>(history.begin(), history.end())) {
    if (id < 0 || id >= std::ssize(scores)) continue;
    float& score = scores[static_cast<size_t>(id)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

void ScoreRules::ban_runs(std::span<float> scores, std::span<const int32_t> history) const {
  for (const std::vector<int32_t>& run : rules_.banned_runs) {
    if (run.empty() || run.size() > history.size()) continue;  // as in transformers: not at the start
    const auto head = std::span(run).first(run.size() - 1);
    if (std::ranges::equal(head, history.last(head.size()))) ban(scores, run.back());
  }
}

void ScoreRules::apply(std::span<float> scores, std::span<const int32_t> written) const {
  std::vector<int32_t> history(text_.before.begin(), text_.before.end());
  history.insert(history.end(), written.begin(), written.end());
  const auto count = std::ssize(written);
  if (rules_.repetition_penalty != 1) penalize(scores, history);
  ban_repeats(scores, history, history, rules_.no_repeat);
  ban_repeats(scores, text_.source, history, rules_.no_repeat_source);
  ban_runs(scores, history);
  for (const int32_t id : vocabulary_.banned) ban(scores, id);
  if (!may_end(count)) {
    for (const int32_t id : vocabulary_.ends) ban(scores, id);
  }
  if (count == first()) {
    for (const int32_t id : rules_.banned_first) ban(scores, id);
  }
  if (rules_.renormalizes) renormalize(scores);
}

}  // namespace attend
