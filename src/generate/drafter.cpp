#include "generate/drafter.h"

#include <algorithm>

namespace attend {

Drafter::Drafter(std::span<const int32_t> before) {
  // The more equal tokens, the likelier is a repetition.
  for (size_t equal = 0; equal < rates_.size(); ++equal) {
    rates_[equal] = static_cast<double>(equal) / static_cast<double>(equal + 4);
  }
  text_.reserve(before.size());
  for (const int32_t id : before) append(id);
}

void Drafter::push(int32_t id) {
  constexpr double kNewShare = 1.0 / 8;  // of the newest token in a rate
  if (next_ > 0) {
    double& rate = rates_[static_cast<size_t>(equal_)];
    rate += kNewShare * ((text_[static_cast<size_t>(next_)] == id ? 1 : 0) - rate);
  }
  append(id);
}

void Drafter::append(int32_t id) {
  const bool continues = next_ > 0 && text_[static_cast<size_t>(next_)] == id;
  text_.push_back(id);
  const int64_t newest = exchange(), newest_equal = newest > 0 ? equal_before(newest) : 0;
  equal_ = continues ? std::min(equal_ + 1, kMostEqual) : 0;
  next_ = continues ? next_ + 1 : 0;
  if (newest_equal > equal_) next_ = newest, equal_ = newest_equal;
}

int64_t Drafter::exchange() {
  if (8 * text_.size() > places_.size()) grow();
  const int64_t longest = std::min(kLongest, std::ssize(text_));
  int64_t found = 0;
  for (int64_t length = longest; length > 0 && found == 0; --length) {
    const int32_t place = places_[slot_of(length)];
    if (place > 0 && equal_before(place) >= length) found = place;
  }
  for (int64_t length = longest; length > 0; --length) places_[slot_of(length)] = static_cast<int32_t>(text_.size());
  return found;
}

int64_t Drafter::equal_before(int64_t place) const {
  int64_t count = 0;
  const auto end = std::ssize(text_);
  while (count < std::min(place, kMostEqual) &&
         text_[static_cast<size_t>(place - 1 - count)] == text_[static_cast<size_t>(end - 1 - count)]) {
    ++count;
  }
  return count;
}

size_t Drafter::slot_of(int64_t length) const {
  auto hash = static_cast<uint64_t>(length);
  for (int64_t i = 1; i <= length; ++i) {
    hash = (hash ^ static_cast<uint32_t>(text_[text_.size() - static_cast<size_t>(i)])) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash) & (places_.size() - 1);
}

/// Doubles the table, so that a run is seldom replaced by another one, and fills it again.
void Drafter::grow() {
  std::vector<int32_t> text = std::move(text_);
  places_.assign(std::max<size_t>(1024, 2 * places_.size()), 0);
  text_.clear();
  text_.reserve(2 * text.size());
  for (const int32_t id : text) {
    text_.push_back(id);
    if (text_.size() < text.size()) exchange();  // the last one is the caller's
  }
}

Draft Drafter::guess(int64_t most, const Vocabulary& vocabulary) const {
  Draft draft;
  if (next_ == 0) return draft;
  const int64_t period = std::ssize(text_) - next_;  // at the end of the text, the guess repeats itself
  double chance = 1;
  for (int64_t i = 0; i < most; ++i) {
    const int32_t id = i < period ? text_[static_cast<size_t>(next_ + i)] : draft.ids[static_cast<size_t>(i - period)];
    if (id < 0 || id >= vocabulary.size || vocabulary.is_end(id) || vocabulary.is_banned(id)) break;
    chance *= rates_[static_cast<size_t>(std::min(equal_ + i, kMostEqual))];
    draft.ids.push_back(id);
    draft.chances.push_back(chance);
  }
  return draft;
}

void shorten_drafts(std::span<Draft> drafts, int64_t tokens, const StepCost& cost) {
  std::vector<size_t> lengths(drafts.size(), 0), best = lengths;
  const auto next_chance = [&](size_t i) {
    return lengths[i] < drafts[i].chances.size() ? drafts[i].chances[lengths[i]] : 0;
  };
  double written = static_cast<double>(tokens), best_speed = 0;  // expected number of tokens, and tokens per time
  for (; tokens <= StepCost::kMostTokens; ++tokens) {
    const double speed = written / cost.of(tokens);
    if (speed > best_speed) best_speed = speed, best = lengths;
    // The likeliest of the next tokens. A later token may pay even if this one does not: costs rise in steps.
    size_t likeliest = 0;
    for (size_t i = 1; i < drafts.size(); ++i) likeliest = next_chance(i) > next_chance(likeliest) ? i : likeliest;
    if (drafts.empty() || next_chance(likeliest) <= 0) break;
    written += next_chance(likeliest);
    ++lengths[likeliest];
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].ids.resize(best[i]);
    drafts[i].chances.resize(best[i]);
  }
}

}  // namespace attend
