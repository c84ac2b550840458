#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "attend/grammar/grammar.h"
#include "grammar/code_points.h"

namespace attend::grammar {

/// Limits of a grammar. A grammar beyond them is refused.
constexpr size_t kMostSymbols = 400'000;
/// Maximum number of open rules, and so about the maximum nesting of a text. Json::parse reads kDeepestJson levels; an
/// object or array opens one rule.
constexpr int32_t kDeepestRules = 30;

using ByteSet = std::bitset<256>;

/// An element of an alternative: the index of a rule, or ~index of a byte set.
using Symbol = int32_t;
using Symbols = std::vector<Symbol>;
constexpr Symbol kEnd = INT32_MIN;  ///< end of an alternative

/// Rules in the form that the automaton reads.
struct Rules {
  struct Alternative {
    int32_t at = 0;    ///< index of its first symbol in `symbols`
    int32_t need = 0;  ///< number of rules that its shortest completion opens inside each other
  };

  std::vector<Symbol> symbols;                         ///< of all alternatives, each with kEnd after it
  std::vector<std::vector<Alternative>> alternatives;  ///< of each rule; only those that can be completed
  std::vector<ByteSet> sets;                           ///< of byte classes
  std::vector<bool> is_inside;                         ///< of each set: its byte is not the first one of a token
  std::array<uint8_t, 256> class_of{};                 ///< bytes of one class are in the same sets
  size_t classes = 0;
  Symbol start = 0;
};

/// Collects rules. Throws FormatError beyond kMostSymbols.
class RuleBuilder {
 public:
  /// A new rule without alternatives.
  Symbol rule();
  void add(Symbol rule, Symbols alternative);
  /// A rule with these alternatives.
  Symbol any_of(std::vector<Symbols> alternatives);
  /// One byte of a set. With `is_inside`, no token begins with it.
  Symbol bytes(const ByteSet& set, bool is_inside = false);
  Symbol byte(char byte);
  Symbol byte_range(char first, char last);
  /// The bytes of a text.
  Symbols text(std::string_view bytes);
  /// One code point of a set, in UTF-8.
  Symbol code_point(const CodePoints& set);
  /// `least` to `most` items, without a limit if `most` is absent.
  Symbol repeated(Symbol item, int64_t least, std::optional<int64_t> most);

  /// Throws FormatError if no text can be completed within kDeepestRules.
  Grammar finish(Symbol start) const;

 private:
  Symbol continuation(int bytes, const std::vector<CodeRange>& ranges);

  std::vector<std::vector<Symbols>> rules_;
  std::vector<ByteSet> sets_;
  std::vector<bool> is_inside_;  // of each set
  std::map<std::pair<std::string, bool>, Symbol> set_symbols_;
  std::map<std::pair<int, std::vector<CodeRange>>, Symbol> continuations_;
  std::map<CodePoints, Symbol> code_points_;
  size_t symbols_ = 0;
};

/// `left` followed by `right`.
Symbols operator+(Symbols left, const Symbols& right);

}  // namespace attend::grammar
