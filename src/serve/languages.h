#pragma once

#include <optional>
#include <string>

namespace attend {

/// The languages of a translation model, as ISO 639 codes.
struct LanguagePair {
  std::string source, target;
};

/// The pair at the end of a model's name: "en-de", "opus-mt-en-de". nullopt if the name has none.
std::optional<LanguagePair> languages_of(const std::string& model_name);
/// "German" for "de"; the code itself if it is not known.
std::string language_name(const std::string& code);

}  // namespace attend
