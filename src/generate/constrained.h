#pragma once

#include <optional>
#include <span>

#include "attend/generate/search.h"
#include "attend/generate/vocabulary.h"
#include "attend/grammar/constraint.h"

namespace attend {

/// A hypothesis under SearchOptions::constraint. Without a constraint, everything is allowed.
class Constrained {
 public:
  explicit Constrained(const SearchOptions& options) {
    if (options.constraint) cursor_ = options.constraint->start();
  }

  explicit operator bool() const { return cursor_.has_value(); }
  /// Sets the scores of tokens that may not come next to −∞. An end token may come when the text is complete. Returns
  /// whether a token is left. Throws ConstraintError if the grammar exceeds the limits.
  [[nodiscard]] bool apply(std::span<float> scores, const Vocabulary& vocabulary) const;
  /// Throws ConstraintError: no hypothesis can be continued.
  [[noreturn]] static void fail();
  /// Appends a token that is not an end token.
  void push(int32_t id);
  /// Whether the text is complete and a vocabulary without end tokens cannot end it.
  bool ends_itself(const Vocabulary& vocabulary) const;

 private:
  std::optional<Constraint::Cursor> cursor_;
};

}  // namespace attend
