#include "serve/languages.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace attend {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 46> kNames{{
    {"ar", "Arabic"},    {"bg", "Bulgarian"},  {"bn", "Bengali"},    {"ca", "Catalan"},   {"cs", "Czech"},
    {"da", "Danish"},    {"de", "German"},     {"el", "Greek"},      {"en", "English"},   {"eo", "Esperanto"},
    {"es", "Spanish"},   {"et", "Estonian"},   {"eu", "Basque"},     {"fa", "Persian"},   {"fi", "Finnish"},
    {"fr", "French"},    {"ga", "Irish"},      {"gl", "Galician"},   {"he", "Hebrew"},    {"hi", "Hindi"},
    {"hu", "Hungarian"}, {"id", "Indonesian"}, {"is", "Icelandic"},  {"it", "Italian"},   {"ja", "Japanese"},
    {"ko", "Korean"},    {"lt", "Lithuanian"}, {"lv", "Latvian"},    {"ms", "Malay"},     {"nl", "Dutch"},
    {"no", "Norwegian"}, {"pl", "Polish"},     {"pt", "Portuguese"}, {"ro", "Romanian"},  {"ru", "Russian"},
    {"sk", "Slovak"},    {"sl", "Slovenian"},  {"sq", "Albanian"},   {"sr", "Serbian"},   {"sv", "Swedish"},
    {"th", "Thai"},      {"tl", "Tagalog"},    {"tr", "Turkish"},    {"uk", "Ukrainian"}, {"vi", "Vietnamese"},
    {"zh", "Chinese"},
}};

bool is_code(std::string_view text) {
  return (text.size() == 2 || text.size() == 3) &&
         std::ranges::all_of(text, [](unsigned char c) { return std::islower(c) != 0; });
}

}  // namespace

std::optional<LanguagePair> languages_of(const std::string& model_name) {
  const size_t last = model_name.rfind('-');
  if (last == std::string::npos || last == 0) return std::nullopt;
  const size_t before = model_name.find_last_of("-_", last - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  LanguagePair pair{.source = model_name.substr(begin, last - begin), .target = model_name.substr(last + 1)};
  return is_code(pair.source) && is_code(pair.target) ? std::optional(pair) : std::nullopt;
}

std::string language_name(const std::string& code) {
  const auto found = std::ranges::find(kNames, std::string_view(code), [](const auto& entry) { return entry.first; });
  return found == kNames.end() ? code : std::string(found->second);
}

}  // namespace attend
