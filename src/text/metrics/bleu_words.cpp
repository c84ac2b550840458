#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <utility>

#include "attend/base/error.h"
#include "attend/text/bleu.h"
#include "attend/text/utf8.h"
#include "io/printable.h"
#include "text/metrics/bleu_words.h"
#include "text/metrics/segments.h"

namespace attend {
namespace {

using Text = std::u32string;
using TextView = std::u32string_view;

bool is_digit(char32_t code) { return code >= '0' && code <= '9'; }
bool is_not_digit(char32_t code) { return !is_digit(code); }
bool is_point_or_comma(char32_t code) { return code == '.' || code == ','; }
bool is_dash(char32_t code) { return code == '-'; }

/// ASCII punctuation that is always a separate word: all but ' , - and the full stop. The space is included, which does
/// no harm.
bool stands_apart(char32_t code) {
  return (code >= ' ' && code <= '&') || (code >= '(' && code <= '+') || code == '/' || (code >= ':' && code <= '@') ||
         (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
}

bool in_categories(char32_t code, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(code)) & mask) != 0; }
bool is_not_number(char32_t code) { return !in_categories(code, U_GC_N_MASK); }
bool is_punctuation(char32_t code) { return in_categories(code, U_GC_P_MASK); }
bool is_symbol(char32_t code) { return in_categories(code, U_GC_S_MASK); }

using Test = bool (*)(char32_t);

Text surround(TextView text, Test test) {
  Text result;
  result.reserve(2 * text.size());
  for (const char32_t code : text) {
    if (test(code))
      result += {U' ', code, U' '};
    else
      result += code;
  }
  return result;
}

enum class Mark { first, second };

/// Finds pairs of adjacent characters that pass the two tests and puts spaces around the marked one. Pairs are searched
/// from left to right and never overlap, as in a global regular-expression replacement.
Text separate(TextView text, Test first, Test second, Mark mark) {
  Text result;
  result.reserve(2 * text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool found = i + 1 < text.size() && first(text[i]) && second(text[i + 1]);
    if (!found)
      result += text[i];
    else if (mark == Mark::first)
      result += {U' ', text[i], U' ', text[i + 1]};
    else
      result += {text[i], U' ', text[i + 1], U' '};
    if (found) ++i;
  }
  return result;
}

/// The rules shared by 13a and zh: separates punctuation, full stops and commas except inside numbers, and dashes after
/// digits.
Text western(TextView line) {
  Text text = surround(line, stands_apart);
  text = separate(text, is_not_digit, is_point_or_comma, Mark::second);
  text = separate(text, is_point_or_comma, is_not_digit, Mark::first);
  return separate(text, is_digit, is_dash, Mark::second);
}

void replace_all(Text& text, TextView from, TextView to) {
  for (size_t at = text.find(from); at != Text::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

Text tokenize_13a(Text line) {
  constexpr std::array<std::pair<TextView, TextView>, 7> kReplacements{{{U"<skipped>", U""},
                                                                        {U"-\n", U""},
                                                                        {U"\n", U" "},
                                                                        {U"&quot;", U"\""},
                                                                        {U"&amp;", U"&"},
                                                                        {U"&lt;", U"<"},
                                                                        {U"&gt;", U">"}}};
  for (const auto& [from, to] : kReplacements) replace_all(line, from, to);
  return western(U' ' + line + U' ');
}

/// The ranges that sacreBLEU uses. Two of sacreBLEU's ranges are meant for the supplementary planes, but each end is
/// spelt as a character followed by a digit. Compared as strings, they make U+2001 … U+2A6D Chinese (dashes, quotation
/// marks, arrows) and leave out 𠀀. Scores agree with sacreBLEU only if this is reproduced.
bool is_chinese(char32_t code) {
  constexpr std::array<std::pair<char32_t, char32_t>, 17> kRanges{{{0x2001, 0x2a6d},
                                                                   {0x2e80, 0x2eff},
                                                                   {0x2f00, 0x2fdf},
                                                                   {0x2ff0, 0x2fff},
                                                                   {0x3000, 0x303f},
                                                                   {0x3100, 0x312f},
                                                                   {0x31a0, 0x31bf},
                                                                   {0x31c0, 0x31ef},
                                                                   {0x3200, 0x33ff},
                                                                   {0x3400, 0x4db5},
                                                                   {0x4e00, 0x9fbb},
                                                                   {0xf900, 0xfa2d},
                                                                   {0xfa30, 0xfa6a},
                                                                   {0xfa70, 0xfad9},
                                                                   {0xfe10, 0xfe1f},
                                                                   {0xfe30, 0xfe4f},
                                                                   {0xff00, 0xffef}}};
  return std::ranges::any_of(kRanges, [=](const auto& range) { return code >= range.first && code <= range.second; });
}

/// Unlike in 13a, the line has no space before and after it, so a full stop at its very beginning is not separated.
Text tokenize_zh(TextView line) {
  const auto begin = std::ranges::find_if_not(line, metric::is_space);
  return western(surround(TextView(begin, line.end()), is_chinese));
}

Text tokenize_intl(TextView line) {
  Text text = separate(line, is_not_number, is_punctuation, Mark::second);
  text = separate(text, is_punctuation, is_not_number, Mark::first);
  return surround(text, is_symbol);
}

constexpr std::array<std::pair<std::string_view, BleuTokenizer>, 5> kTokenizers{{{"none", BleuTokenizer::none},
                                                                                 {"13a", BleuTokenizer::v13a},
                                                                                 {"zh", BleuTokenizer::zh},
                                                                                 {"char", BleuTokenizer::characters},
                                                                                 {"intl", BleuTokenizer::intl}}};

}  // namespace

namespace metric {

Text tokenize(Text line, BleuTokenizer tokenizer) {
  while (!line.empty() && is_space(line.back())) line.pop_back();
  switch (tokenizer) {
    case BleuTokenizer::none:
      return line;
    case BleuTokenizer::v13a:
      return tokenize_13a(std::move(line));
    case BleuTokenizer::zh:
      return tokenize_zh(line);
    case BleuTokenizer::characters:
      return surround(line, [](char32_t) { return true; });
    case BleuTokenizer::intl:
      return tokenize_intl(line);
  }
  return line;
}

std::string_view name_of(BleuTokenizer tokenizer) {
  return std::ranges::find(kTokenizers, tokenizer, &std::pair<std::string_view, BleuTokenizer>::second)->first;
}

}  // namespace metric

BleuTokenizer bleu_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kTokenizers, name, &std::pair<std::string_view, BleuTokenizer>::first);
  require<Error>(found != kTokenizers.end(), "bleu: expected the tokenizer 13a, zh, char, intl or none, got ",
                 in_quotes(name));
  return found->second;
}

BleuTokenizer usual_bleu_tokenizer(std::span<const std::string> lines) {
  int64_t chinese = 0, kana = 0, all = 0;
  for (const std::string& line : lines) {
    for (const char32_t code : code_points(line)) {
      const bool is_kana = code >= 0x3041 && code <= 0x30fa;  // within the ranges that sacreBLEU's zh calls Chinese
      kana += is_kana;
      chinese += is_chinese(code) && !is_kana;
      all += code != ' ';
    }
  }
  if (kana * 10 >= all && kana > 0) return BleuTokenizer::characters;
  return chinese * 5 >= all && chinese > 0 ? BleuTokenizer::zh : BleuTokenizer::v13a;
}

std::vector<std::string> bleu_words(std::string_view line, BleuTokenizer tokenizer) {
  const Text text = metric::tokenize(code_points(line), tokenizer);
  std::vector<std::string> words;
  for (const TextView word : metric::split_at_space(text)) words.push_back(to_utf8(word));
  return words;
}

}  // namespace attend
