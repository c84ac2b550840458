#include "text/tokenizers/regex.h"

#include <unicode/regex.h>
#include <unicode/utext.h>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr size_t kLongestPattern = 20'000;
constexpr int32_t kMostStack = 64 * 1024 * 1024;  // one entry for each character that a greedy loop may give back

UBool spend_tick(const void* work, int32_t) {
  return const_cast<TextWork*>(static_cast<const TextWork*>(work))->spend_tick();
}

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  require<FormatError>(pattern.size() <= kLongestPattern, "a regular expression has ", pattern.size(),
                       " bytes, expected at most ", kLongestPattern);
  UErrorCode status = U_ZERO_ERROR;
  UParseError where;
  const auto text = icu::UnicodeString::fromUTF8(pattern);
  // The files are written for Oniguruma, where ^ and $ match at line ends.
  std::unique_ptr<icu::RegexPattern> compiled(icu::RegexPattern::compile(text, UREGEX_MULTILINE, where, status));
  require<FormatError>(U_SUCCESS(status), "cannot compile the regular expression ", in_quotes(pattern), ": ",
                       u_errorName(status));
  compiled_ = std::make_unique<Compiled>(Compiled{std::move(compiled)});
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, TextWork& work, const std::function<void(Span)>& visit) const {
  UErrorCode status = work.start_search() ? U_ZERO_ERROR : U_REGEX_STOPPED_BY_CALLER;
  const auto check = [&] {
    require<FormatError>(status != U_REGEX_STOPPED_BY_CALLER, "tokenizer: the regular expression ", in_quotes(pattern_),
                         " takes too many steps for a text of ", work.text_bytes(), " bytes");
    require<FormatError>(U_SUCCESS(status), "cannot apply the regular expression ", in_quotes(pattern_), ": ",
                         u_errorName(status));
  };
  check();
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(status));
  check();
  matcher->setMatchCallback(spend_tick, &work, status);
  matcher->setStackLimit(kMostStack, status);
  UText input = UTEXT_INITIALIZER;
  utext_openUTF8(&input, text.data(), static_cast<int64_t>(text.size()), &status);
  check();
  const std::unique_ptr<UText, decltype(&utext_close)> closing(&input, utext_close);
  matcher->reset(&input);
  while (matcher->find(status) && U_SUCCESS(status)) {
    const auto begin = matcher->start64(status), end = matcher->end64(status);
    check();
    visit({static_cast<size_t>(begin), static_cast<size_t>(end)});
  }
  check();
}

std::string Regex::replace_all(std::string_view text, std::string_view by, TextWork& work) const {
  std::string out;
  size_t at = 0;
  for_each_match(text, work, [&](Span match) {
    out.append(text.substr(at, match.begin - at)).append(by);
    at = match.end;
  });
  return out += text.substr(at);
}

Pattern Pattern::literal(std::string text) {
  Pattern result;
  result.literal_ = std::move(text);
  return result;
}

Pattern Pattern::regex(const std::string& expression) {
  Pattern result;
  result.regex_ = std::make_shared<const Regex>(expression);
  return result;
}

void Pattern::for_each_match(std::string_view text, TextWork& work, const std::function<void(Span)>& visit) const {
  if (regex_) return regex_->for_each_match(text, work, visit);
  if (literal_.empty()) return;
  for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos; at += literal_.size()) {
    visit({at, at + literal_.size()});
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view by, TextWork& work) const {
  if (regex_) return regex_->replace_all(text, by, work);
  return literal_.empty() ? std::string(text) : replaced(text, literal_, by);
}

}  // namespace attend::text
