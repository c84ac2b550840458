#include "text/tokenizers/normalizer.h"

#include <map>
#include <memory>
#include <vector>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/sentencepiece/charsmap.h"
#include "text/tokenizers/byte_level.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr size_t kMostComponents = 128;
constexpr size_t kLongestContent = 256;  // bytes that a step inserts into the text, once or at every match

bool is_chinese(char32_t code) {
  // The ranges of Hugging Face's BertNormalizer, including its gap before 2B920.
  return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) ||
         (code >= 0x20000 && code <= 0x2a6df) || (code >= 0x2a700 && code <= 0x2b73f) ||
         (code >= 0x2b740 && code <= 0x2b81f) || (code >= 0x2b920 && code <= 0x2ceaf) ||
         (code >= 0xf900 && code <= 0xfaff) || (code >= 0x2f800 && code <= 0x2fa1f);
}

/// Removes control characters and replaces all whitespace by plain spaces.
std::string cleaned(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    const bool kept_control = code == '\t' || code == '\n' || code == '\r';
    if (code == 0 || code == 0xfffd || (!kept_control && is_other(code))) return;
    out += is_space(code) ? " " : bytes;
  });
  return out;
}

std::string spaced_chinese(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    const bool alone = is_chinese(code);
    if (alone) out += ' ';
    out += bytes;
    if (alone) out += ' ';
  });
  return out;
}

Normalizer bert(const Json& json) {
  const bool clean = field(json, "clean_text", true), chinese = field(json, "handle_chinese_chars", true);
  const bool lower = field(json, "lowercase", true), strip = field(json, "strip_accents", lower);
  return [=](std::string_view text, TextWork&) {
    std::string out(text);
    if (clean) out = cleaned(out);
    if (chinese && !is_ascii(out)) out = spaced_chinese(out);
    if (strip && !is_ascii(out)) {
      out = filtered(normalized(out, NormalForm::nfd), [](char32_t code) { return !is_nonspacing_mark(code); });
    }
    return lower ? lowercased(out) : out;
  };
}

Normalizer strip(const Json& json) {
  const bool left = field(json, "strip_left", true), right = field(json, "strip_right", true);
  return [=](std::string_view text, TextWork&) {
    size_t first = text.size(), last = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (is_space(next_code_point(text, at))) continue;
      first = std::min(first, begin);
      last = at;
    }
    const size_t begin = left ? first : 0, end = right ? last : text.size();
    return std::string(begin < end ? text.substr(begin, end - begin) : "");
  };
}

/// The rules of SentencePiece's nmt normalisation other than NFKC.
std::string nmt(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    const bool blank = code == 9 || code == 10 || code == 12 || code == 13 || code == 0x1680 || code == 0x2028 ||
                       (code >= 0x200b && code <= 0x200f) || code == 0x2029 || code == 0x2581 || code == 0xfeff ||
                       code == 0xfffd;
    const bool dropped = (code >= 1 && code <= 0x1f) || code == 0x7f || code == 0x8f || code == 0x9f;
    if (blank) bytes = " ";
    if (blank || !dropped) out += bytes;
  });
  return out;
}

std::string short_string(const Json& json, const char* key) {
  const std::string text = required_string(json, key);
  require<FormatError>(text.size() <= kLongestContent, "\"", key, "\" of a normalizer has ", text.size(),
                       " bytes, expected at most ", kLongestContent);
  return text;
}

Normalizer replace(const Json& json) {
  const Pattern pattern = make_pattern(required(json, "pattern"));
  const std::string content = short_string(json, "content");
  return [=](std::string_view text, TextWork& work) { return pattern.replace_all(text, content, work); };
}

Normalizer prepend(const Json& json) {
  const std::string prefix = short_string(json, "prepend");
  return [=](std::string_view text, TextWork&) { return text.empty() ? "" : prefix + std::string(text); };
}

Normalizer precompiled(const Json& json) {
  const auto map = std::make_shared<const Charsmap>(from_base64(required_string(json, "precompiled_charsmap")));
  // The strings of the blob may be invalid UTF-8, but all later steps require valid UTF-8.
  return [map](std::string_view text, TextWork&) { return repair_utf8(apply_by_grapheme(*map, text)).text; };
}

Normalizer sequence(const Json& json) {
  std::vector<Normalizer> steps;
  for (const Json& step : required(json, "normalizers")) steps.push_back(make_normalizer(step));
  return [steps](std::string_view text, TextWork& work) {
    std::string out(text);
    for (const Normalizer& step : steps) {
      if (step) out = step(out, work);
    }
    return out;
  };
}

template <NormalForm form>
Normalizer normal_form(const Json&) {
  return [](std::string_view text, TextWork&) { return normalized(text, form); };
}

/// A normalizer step without settings.
Normalizer simple(std::string (*change)(std::string_view)) {
  return [change](std::string_view text, TextWork&) { return change(text); };
}

const std::map<std::string, Normalizer (*)(const Json&)>& makers() {
  static const std::map<std::string, Normalizer (*)(const Json&)> table{
      {"NFC", normal_form<NormalForm::nfc>},
      {"NFD", normal_form<NormalForm::nfd>},
      {"NFKC", normal_form<NormalForm::nfkc>},
      {"NFKD", normal_form<NormalForm::nfkd>},
      {"Lowercase", [](const Json&) { return simple(lowercased); }},
      {"StripAccents",
       [](const Json&) {
         return simple([](std::string_view text) { return filtered(text, [](char32_t c) { return !is_mark(c); }); });
       }},
      {"BertNormalizer", bert},
      {"Strip", strip},
      {"Nmt", [](const Json&) { return simple(nmt); }},
      {"Replace", replace},
      {"Prepend", prepend},
      {"ByteLevel", [](const Json&) { return simple(spelled_bytes); }},
      {"Precompiled", precompiled},
      {"Sequence", sequence},
  };
  return table;
}

size_t count_components(const Json& json) {
  size_t count = 0;
  if (json.is_object() && json.contains("type")) ++count;
  if (json.is_structured()) {
    for (const Json& inner : json) count += count_components(inner);
  }
  return count;
}

}  // namespace

void require_few_components(const Json& json) {
  const size_t count = count_components(json);
  require<FormatError>(count <= kMostComponents, "expected at most ", kMostComponents, " components, got ", count);
}

Pattern make_pattern(const Json& json) {
  if (json.is_string()) return Pattern::literal(json.get<std::string>());
  if (json.is_object() && json.contains("Regex")) return Pattern::regex(required_string(json, "Regex"));
  return Pattern::literal(required_string(json, "String"));
}

Normalizer make_normalizer(const Json& json) {
  if (json.is_null()) return {};
  const std::string type = type_of(json);
  const auto maker = makers().find(type);
  require<FormatError>(maker != makers().end(), "unknown normalizer ", in_quotes(type));
  Normalizer made = maker->second(json);
  return [made](std::string_view text, TextWork& work) {
    std::string out = made(text, work);
    work.wrote("normalizer", out.size());
    return out;
  };
}

}  // namespace attend::text
