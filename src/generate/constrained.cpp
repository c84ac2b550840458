#include "generate/constrained.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "attend/base/error.h"

namespace attend {

bool Constrained::apply(std::span<float> scores, const Vocabulary& vocabulary) const {
  if (!cursor_) return true;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto is_token = [&](int32_t id) { return id >= 0 && id < std::ssize(scores); };
  std::vector<float> ends;  // an end token may have text too; it only ends
  for (const int32_t id : vocabulary.ends) ends.push_back(is_token(id) ? scores[static_cast<size_t>(id)] : kNever);
  cursor_->allowed()->apply(scores);
  bool may_end = false;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (!is_token(vocabulary.ends[i])) continue;
    scores[static_cast<size_t>(vocabulary.ends[i])] = cursor_->is_complete() ? ends[i] : kNever;
    may_end |= cursor_->is_complete() && ends[i] > kNever;
  }
  for (const int32_t id : vocabulary.banned) {
    if (is_token(id)) scores[static_cast<size_t>(id)] = kNever;
  }
  if (may_end || std::ranges::any_of(scores, [&](float score) { return score > kNever; })) return true;
  // A rule such as a minimum length bans the end token, but nothing else may follow.
  if (!cursor_->is_complete() || !is_token(vocabulary.end())) return false;
  scores[static_cast<size_t>(vocabulary.end())] = 0;
  return true;
}

void Constrained::fail() {
  throw_error<ConstraintError>("generate: no token of the vocabulary continues the text in the requested format");
}

void Constrained::push(int32_t id) {
  if (cursor_) cursor_->push(id);
}

bool Constrained::ends_itself(const Vocabulary& vocabulary) const {
  return cursor_ && cursor_->is_final() && vocabulary.ends.empty();
}

}  // namespace attend
