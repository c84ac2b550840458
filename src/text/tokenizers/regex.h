#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizers/text_work.h"

namespace attend::text {

struct Span {
  size_t begin = 0, end = 0;  ///< in bytes
};

/// A regular expression over UTF-8. Expressions come from untrusted files, so their size and the total work of all
/// searches in a text are limited. Exceeding a limit throws FormatError.
class Regex {
 public:
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  /// Calls visit(where) for each match from left to right. Matches do not overlap.
  void for_each_match(std::string_view text, TextWork& work, const std::function<void(Span)>& visit) const;
  /// The text with each match replaced by the literal string `by`.
  std::string replace_all(std::string_view text, std::string_view by, TextWork& work) const;

 private:
  struct Compiled;
  std::string pattern_;
  std::unique_ptr<const Compiled> compiled_;
};

/// A string or a regular expression, as {"String": …} or {"Regex": …} in tokenizer.json.
class Pattern {
 public:
  static Pattern literal(std::string text);
  static Pattern regex(const std::string& expression);

  void for_each_match(std::string_view text, TextWork& work, const std::function<void(Span)>& visit) const;
  std::string replace_all(std::string_view text, std::string_view by, TextWork& work) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;  // null: literal_ is the pattern
};

}  // namespace attend::text
