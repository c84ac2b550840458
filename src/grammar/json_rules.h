#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grammar/pattern.h"
#include "grammar/rules.h"

namespace attend::grammar {

/// Integers have at most 18 digits.
constexpr int64_t kLargestInteger = 999'999'999'999'999'999;

/// A member of an object.
struct PropertyRule {
  std::string name;
  Symbol value = 0;
  bool is_required = false;
};

/// The items of an array.
struct ItemRules {
  std::vector<Symbol> first{};   ///< of the first positions
  std::optional<Symbol> rest{};  ///< of the others; absent: there are no others
  int64_t least = 0;
  std::optional<int64_t> most{};
};

/// Rules for JSON text. White space is limited: after `{`, `[` and `,` and before `}` and `]`, a space or a line break
/// with up to 20 spaces; after `:`, a space.
class JsonRules {
 public:
  explicit JsonRules(RuleBuilder& rule_builder) : builder(rule_builder) {}

  RuleBuilder& builder;

  Symbol space();       ///< white space between members or items
  Symbol colon();       ///< `:` and an optional space
  Symbol value();       ///< any value
  Symbol any_object();  ///< any object
  Symbol any_array();   ///< any array
  Symbol number();      ///< any number of at most 18 digits, 18 decimals and an exponent of two digits
  /// A string of `least` to `most` code points.
  Symbol string(int64_t least = 0, std::optional<int64_t> most = {});
  /// A string with a text of the automaton. Characters are escaped only if they must be.
  Symbol string(const Dfa& dfa);
  /// Integers from `least` to `most`, both at most kLargestInteger in size, without leading zeros.
  Symbol integer(int64_t least, int64_t most);
  /// An object with these members in this order, followed by any number of other members whose values match
  /// `additional`.
  Symbol object(std::span<const PropertyRule> properties, std::optional<Symbol> additional);
  Symbol array(const ItemRules& items);

 private:
  Symbol character();
  Symbol escaped(const CodePoints& set);
  Symbol digits(std::string_view least, std::string_view most);
  void add_magnitudes(Symbol rule, const Symbols& sign, uint64_t least, uint64_t most);
  Symbol member_tail(Symbol key, Symbol value);

  std::optional<Symbol> space_, colon_, value_, any_object_, any_array_, number_, string_, character_;
  std::map<std::pair<std::string, std::string>, Symbol> digits_;
};

}  // namespace attend::grammar
