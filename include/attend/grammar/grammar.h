#pragma once

#include <memory>
#include <string_view>

#include "attend/base/error.h"

namespace attend {

/// The vocabulary cannot write, or cannot continue, a text in the format of a constraint.
struct ConstraintError : Error {
  using Error::Error;
};

namespace grammar {
struct Rules;
}  // namespace grammar

/// A language of texts: context-free rules over bytes. Copies are cheap and share the rules.
class Grammar {
 public:
  explicit Grammar(std::shared_ptr<const grammar::Rules> rules) : rules_(std::move(rules)) {}

  /// Whether the whole text is in the language.
  bool matches(std::string_view text) const;
  const std::shared_ptr<const grammar::Rules>& rules() const { return rules_; }

 private:
  std::shared_ptr<const grammar::Rules> rules_;
};

}  // namespace attend
