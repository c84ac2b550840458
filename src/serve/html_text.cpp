#include "serve/html_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>

#include "serve/http/message.h"

namespace attend {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\f";

struct Entity {
  std::string_view name;
  uint32_t character;
};

/// Those beside the letters of Latin-1, which follow.
constexpr std::array<Entity, 30> kEntities{{
    {"amp", '&'},       {"lt", '<'},        {"gt", '>'},       {"quot", '"'},      {"apos", '\''},
    {"euro", 0x20AC},   {"hellip", 0x2026}, {"ndash", 0x2013}, {"mdash", 0x2014},  {"lsquo", 0x2018},
    {"rsquo", 0x2019},  {"sbquo", 0x201A},  {"ldquo", 0x201C}, {"rdquo", 0x201D},  {"bdquo", 0x201E},
    {"lsaquo", 0x2039}, {"rsaquo", 0x203A}, {"bull", 0x2022},  {"trade", 0x2122},  {"minus", 0x2212},
    {"le", 0x2264},     {"ge", 0x2265},     {"ne", 0x2260},    {"larr", 0x2190},   {"rarr", 0x2192},
    {"thinsp", 0x2009}, {"oelig", 0x0153},  {"OElig", 0x0152}, {"scaron", 0x0161}, {"Scaron", 0x0160},
}};

/// U+00A0 to U+00FF.
constexpr std::array<std::string_view, 96> kLatin{
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",    "copy",   "ordf",
    "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn", "sup2",   "sup3",   "acute",  "micro",
    "para",   "middot", "cedil",  "sup1",   "ordm",   "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave",
    "Aacute", "Acirc",  "Atilde", "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",
    "Igrave", "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde", "Ouml",
    "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",  "szlig",  "agrave", "aacute",
    "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil", "egrave", "eacute", "ecirc",  "euml",   "igrave",
    "iacute", "icirc",  "iuml",   "eth",    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide",
    "oslash", "ugrave", "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml"};

/// Elements whose content is not translated. Only their own end tag ends the content.
constexpr std::array<std::string_view, 6> kRaw{"script", "style", "xmp", "iframe", "noembed", "noframes"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

void append_utf8(std::string& text, uint32_t c) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      add(0xE0 | c >> 12);
    } else {
      add(0xF0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3F));
    }
    add(0x80 | (c >> 6 & 0x3F));
  }
  add(0x80 | (c & 0x3F));
}

/// The character of an entity without & and ;. 0: none.
uint32_t character_of(std::string_view name) {
  if (name.starts_with('#')) {
    const bool is_hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
    name.remove_prefix(is_hex ? 2 : 1);
    if (name.empty()) return 0;
    uint32_t value = 0;
    for (const unsigned char c : name) {
      if (is_hex ? std::isxdigit(c) == 0 : std::isdigit(c) == 0) return 0;
      const int digit = std::isdigit(c) != 0 ? c - '0' : std::tolower(c) - 'a' + 10;
      value = std::min<uint32_t>(value * (is_hex ? 16 : 10) + static_cast<uint32_t>(digit), 0x110000);
    }
    const bool is_character = value != 0 && value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    return is_character ? value : 0xFFFD;
  }
  const auto known = std::ranges::find(kEntities, name, &Entity::name);
  if (known != kEntities.end()) return known->character;
  const auto latin = std::ranges::find(kLatin, name);
  return latin == kLatin.end() ? 0 : 0xA0 + static_cast<uint32_t>(latin - kLatin.begin());
}

/// The characters of entities; those that are not known stay.
std::string unescaped(std::string_view text) {
  constexpr size_t kLongest = 12;
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t end = text[i] == '&' ? text.substr(i, kLongest).find(';') : std::string_view::npos;
    const uint32_t character = end == std::string_view::npos ? 0 : character_of(text.substr(i + 1, end - 1));
    if (character == 0) {
      result += text[i];
    } else {
      append_utf8(result, character);
      i += end;
    }
  }
  return result;
}

/// Line ends and repeated spaces mean one space.
std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool is_space = kSpaces.find(c) != std::string_view::npos;
    if (!is_space || !result.ends_with(' ')) result += is_space ? ' ' : c;
  }
  return result;
}

/// The position after the tag that starts at `at`. A > inside quotes does not end the tag.
size_t tag_end(std::string_view html, size_t at) {
  char quote = 0;
  for (; at < html.size(); ++at) {
    const char c = html[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '>') {
      return at + 1;
    } else if ((c == '"' || c == '\'') && html[at - 1] == '=') {
      quote = c;
    } else if ((c == '"' || c == '\'') && kSpaces.find(html[at - 1]) != std::string_view::npos) {
      const size_t before = html.substr(0, at).find_last_not_of(kSpaces);
      if (html[before] == '=') quote = c;  // name = "value"
    }
  }
  return at;
}

/// The position of the end tag `</name`, or the end of the text.
size_t end_tag(std::string_view html, size_t at, std::string_view name) {
  for (at = html.find("</", at); at != std::string_view::npos; at = html.find("</", at + 2)) {
    const size_t behind = at + 2 + name.size();
    if (ascii_lower(html.substr(at + 2, name.size())) != name) continue;
    if (behind >= html.size() || html[behind] == '>' || html[behind] == '/' ||
        kSpaces.find(html[behind]) != std::string_view::npos) {
      return at;
    }
  }
  return html.size();
}

/// The position after the markup that starts with the < at `at`, or `at` if this < is plain text.
size_t markup_end(std::string_view html, size_t at) {
  const std::string_view rest = html.substr(at);
  if (rest.starts_with("<!--")) return std::min(html.find("-->", at + 2), html.size() - 3) + 3;
  const bool is_end = rest.starts_with("</");
  const size_t name = at + (is_end ? 2 : 1);
  if (name >= html.size()) return at;
  if (html[name] == '!' || html[name] == '?' || (is_end && !is_letter(html[name]))) {
    return std::min(html.find('>', name), html.size() - 1) + 1;
  }
  if (!is_letter(html[name])) return at;
  const size_t end = tag_end(html, name);
  if (is_end) return end;
  const size_t name_end = std::min(html.find_first_of(" \t\r\n\f/>", name), html.size());
  const std::string element = ascii_lower(html.substr(name, name_end - name));
  if (std::ranges::find(kRaw, element) != kRaw.end()) return end_tag(html, end, element);
  return element == "plaintext" ? html.size() : end;
}

/// Whether a tag is <name …> or </name>.
bool is_tag(std::string_view markup, std::string_view name) {
  markup.remove_prefix(markup.starts_with("</") ? 2 : 1);
  const size_t end = std::min(markup.find_first_of(" \t\r\n\f/>"), markup.size());
  return end == name.size() && ascii_lower(markup.substr(0, end)) == name;
}

/// Adds a text, which begins behind `pieces.back().markup`.
void end_line(std::vector<HtmlPiece>& pieces, std::string_view raw, bool is_pre) {
  const size_t begin = raw.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) {
    pieces.back().markup += raw;
    return;
  }
  const size_t end = raw.find_last_not_of(kSpaces) + 1;
  pieces.back().markup += raw.substr(0, begin);
  const std::string_view text = raw.substr(begin, end - begin);
  pieces.back().text = unescaped(is_pre ? std::string(text) : with_single_spaces(text));
  pieces.push_back({.markup = std::string(raw.substr(end)), .text = {}});
}

/// Ends a text, which begins behind `pieces.back().markup`. Within <pre>, each line is a text, with its spaces.
void end_text(std::vector<HtmlPiece>& pieces, std::string_view raw, bool is_pre) {
  for (size_t line = raw.find('\n'); is_pre && line != std::string_view::npos; line = raw.find('\n')) {
    end_line(pieces, raw.substr(0, line + 1), true);
    raw.remove_prefix(line + 1);
  }
  end_line(pieces, raw, is_pre);
}

}  // namespace

std::vector<HtmlPiece> html_pieces(std::string_view html) {
  std::vector<HtmlPiece> pieces(1);
  size_t begin = 0;  // of the text
  bool is_pre = false;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at)) {
    const size_t end = markup_end(html, at);
    if (end == at) {
      ++at;
      continue;
    }
    end_text(pieces, html.substr(begin, at - begin), is_pre);
    const std::string_view markup = html.substr(at, end - at);
    pieces.back().markup += markup;
    if (is_tag(markup, "pre")) is_pre = !markup.starts_with("</");
    begin = at = end;
  }
  end_text(pieces, html.substr(begin), is_pre);
  return pieces;
}

std::string html_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace attend
