#include "grammar/pattern_parser.h"

#include <unicode/uniset.h>

#include <algorithm>
#include <string>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "io/printable.h"

namespace attend::grammar {
namespace {

constexpr int kDeepestPattern = 50;
constexpr int64_t kMostRepeats = 10'000;

const CodePoints& digits() {
  static const CodePoints set{{'0', '9'}};
  return set;
}
const CodePoints& word_characters() {
  static const CodePoints set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
/// ECMAScript's white space and line ends.
const CodePoints& spaces() {
  static const CodePoints set{{0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                              {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : source_(pattern), text_(code_points(pattern)) {}

  PatternNode parse() {
    PatternNode result = choice();
    if (!is_over()) fail("unexpected )");
    return result;
  }

 private:
  using Kind = PatternNode::Kind;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw_error<FormatError>("pattern ", in_quotes(source_), ": ", parts...);
  }

  bool is_over() const { return at_ == text_.size(); }
  bool is_at(char32_t code) const { return !is_over() && text_[at_] == code; }
  bool starts(std::u32string_view text) const { return std::u32string_view(text_).substr(at_).starts_with(text); }
  char32_t take() {
    if (is_over()) fail("unexpected end");
    return text_[at_++];
  }
  bool skip(char32_t code) {
    if (!is_at(code)) return false;
    ++at_;
    return true;
  }

  PatternNode choice() {
    if (++depth_ > kDeepestPattern) fail("more than ", kDeepestPattern, " groups inside each other");
    PatternNode result{.kind = Kind::choice};
    do {
      result.children.push_back(sequence());
    } while (skip('|'));
    --depth_;
    return result;
  }

  PatternNode sequence() {
    PatternNode result{.kind = Kind::sequence};
    while (!is_over() && !is_at('|') && !is_at(')')) result.children.push_back(quantified(atom()));
    return result;
  }

  PatternNode quantified(PatternNode item) {
    int64_t least = 0, most = -1;
    if (skip('*')) {
    } else if (skip('+')) {
      least = 1;
    } else if (skip('?')) {
      most = 1;
    } else if (skip('{')) {
      least = most = number();
      if (skip(',')) most = is_at('}') ? -1 : number();
      if (!skip('}')) fail("expected }");
      if (most >= 0 && most < least) fail("numbers out of order in {}");
    } else {
      return item;
    }
    skip('?');  // a lazy quantifier matches the same texts
    if (item.kind == Kind::begin || item.kind == Kind::end) fail("nothing to repeat");
    if (is_at('*') || is_at('+') || is_at('?') || is_at('{')) fail("nothing to repeat");
    PatternNode result{.kind = Kind::repeat, .least = least, .most = most};
    result.children.push_back(std::move(item));
    return result;
  }

  int64_t number() {
    int64_t value = 0;
    if (is_over() || !digits().contains(text_[at_])) fail("expected a number in {}");
    while (!is_over() && digits().contains(text_[at_])) {
      value = value * 10 + static_cast<int64_t>(take() - '0');
      if (value > kMostRepeats) fail("more than ", kMostRepeats, " repetitions");
    }
    return value;
  }

  static PatternNode set_node(CodePoints set) { return {.kind = Kind::set, .set = std::move(set)}; }

  PatternNode atom() {
    switch (const char32_t code = take()) {
      case '^':
        return {.kind = Kind::begin};
      case '$':
        return {.kind = Kind::end};
      case '.':
        return set_node(CodePoints{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement());
      case '(':
        return group();
      case '[':
        return set_node(character_class());
      case '\\':
        return escaped_atom();
      case '*':
      case '+':
      case '?':
      case '{':
        fail("nothing to repeat");
      default:
        return set_node({{code, code}});
    }
  }

  PatternNode group() {
    if (skip('?')) {
      if (starts(U"=") || starts(U"!") || starts(U"<=") || starts(U"<!")) fail("look-around is not supported");
      if (skip('<')) {
        while (take() != '>') {
        }
      } else if (!skip(':')) {
        fail("this kind of group is not supported");
      }
    }
    PatternNode result = choice();
    if (!skip(')')) fail("expected )");
    return result;
  }

  PatternNode escaped_atom() {
    if (is_at('b') || is_at('B')) fail("word boundaries (\\b, \\B) are not supported");
    if (is_at('k') || (!is_over() && text_[at_] >= '1' && text_[at_] <= '9')) {
      fail("back-references are not supported");
    }
    return set_node(escape());
  }

  /// The set of an escape; the backslash is taken.
  CodePoints escape() {
    switch (const char32_t code = take()) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return word_characters();
      case 'W':
        return word_characters().complement();
      case 's':
        return spaces();
      case 'S':
        return spaces().complement();
      case 'p':
      case 'P':
        return property(code == 'P');
      case 'b':
        return {{'\b', '\b'}};
      default: {
        const char32_t one = escaped_code(code);
        return {{one, one}};
      }
    }
  }

  char32_t escaped_code(char32_t code) {
    switch (code) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case '0':
        return 0;
      case 'c':
        return take() % 32;
      case 'x':
        return hex(2);
      case 'u':
        return unicode();
      default: {
        const bool is_plain = code < 0x80 && !word_characters().contains(code);
        if (!is_plain) fail("unknown escape \\", to_utf8({&code, 1}));
        return code;
      }
    }
  }

  char32_t hex(int count) {
    char32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const char32_t c = take();
      const bool is_digit = c >= '0' && c <= '9';
      const char32_t lower = c | 0x20;
      if (!is_digit && (lower < 'a' || lower > 'f')) fail("expected a hexadecimal digit");
      value = value * 16 + (is_digit ? c - '0' : lower - 'a' + 10);
    }
    return value;
  }

  char32_t unicode() {
    char32_t value = 0;
    if (skip('{')) {
      while (!skip('}')) {
        value = value * 16 + hex(1);
        if (value > CodePoints::kLast) fail("a code point above U+10FFFF");
      }
      return checked(value);
    }
    value = hex(4);
    if (value >= 0xD800 && value < 0xDC00 && starts(U"\\u")) {
      at_ += 2;
      const char32_t low = hex(4);
      if (low < 0xDC00 || low > 0xDFFF) fail("a lone surrogate");
      return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    return checked(value);
  }

  char32_t checked(char32_t value) const {
    if (value >= 0xD800 && value <= 0xDFFF) fail("a lone surrogate");
    return value;
  }

  CodePoints property(bool is_negated) {
    std::string name;
    if (!skip('{')) fail("expected { after \\p");
    for (char32_t code = take(); code != '}'; code = take()) {
      const bool is_plain = word_characters().contains(code) || code == '=';
      if (!is_plain) fail("unknown property");
      name += static_cast<char>(code);
    }
    UErrorCode status = U_ZERO_ERROR;
    const icu::UnicodeSet found(icu::UnicodeString::fromUTF8("[\\p{" + name + "}]"), status);
    if (U_FAILURE(status)) fail("unknown property ", name);
    CodePoints result;
    for (int32_t i = 0; i < found.getRangeCount(); ++i) {
      result.add({static_cast<char32_t>(found.getRangeStart(i)), static_cast<char32_t>(found.getRangeEnd(i))});
    }
    return is_negated ? result.complement() : result;
  }

  CodePoints character_class() {
    const bool is_negated = skip('^');
    CodePoints result;
    while (!skip(']')) {
      const CodePoints first = class_atom();
      const bool is_range = is_at('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        result.add(first);
        continue;
      }
      ++at_;
      const CodePoints last = class_atom();
      const auto is_one = [](const CodePoints& set) {
        return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
      };
      if (!is_one(first) || !is_one(last)) fail("a range of character classes");
      const CodeRange range{first.ranges()[0].first, last.ranges()[0].first};
      if (range.first > range.last) fail("range out of order in a character class");
      result.add(range);
    }
    return is_negated ? result.complement() : result;
  }

  CodePoints class_atom() {
    const char32_t code = take();
    if (code == '\\') return escape();
    return {{code, code}};
  }

  std::string source_;
  std::u32string text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

PatternNode parse_pattern(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace attend::grammar
