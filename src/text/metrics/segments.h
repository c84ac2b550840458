#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/base/error.h"

// Shared by BLEU and chrF: sentences with their references, and text as code points.
namespace attend::metric {

/// Whitespace as in Python, in which sacreBLEU is written: Unicode's, and the four separators U+001C … U+001F.
bool is_space(char32_t code);
std::vector<std::u32string_view> split_at_space(std::u32string_view text);

/// Decodes UTF-8 to code points, optionally in lower case. Throws FormatError if the text is not UTF-8.
std::u32string decode(std::string_view text, bool lowercase);

/// The non-empty references. If a sentence has fewer references than others, empty strings fill the missing ones.
template <class Strings>
std::vector<std::string_view> given(const Strings& references) {
  std::vector<std::string_view> result;
  for (const std::string_view reference : references) {
    if (!reference.empty()) result.push_back(reference);
  }
  return result;
}

/// Calls visit(hypothesis, references) for each sentence. Throws ShapeError, which names `op`, if the lists differ in
/// length or a sentence has no reference.
template <class Visit>
void for_each_sentence(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                       const char* op, Visit&& visit) {
  require<ShapeError>(!references.empty(), op, ": expected at least one list of references, got none");
  for (const std::vector<std::string>& list : references) {
    require<ShapeError>(list.size() == hypotheses.size(), op, ": expected as many references as hypotheses, got ",
                        list.size(), " and ", hypotheses.size());
  }
  std::vector<std::string_view> all(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < references.size(); ++r) all[r] = references[r][i];
    const std::vector<std::string_view> found = given(all);
    require<ShapeError>(!found.empty(), op, ": sentence ", i + 1, " has no reference: all ", all.size(),
                        " references are empty");
    visit(hypotheses[i], found);
  }
}

/// The beginning of both signatures, such as `nrefs:1|case:mixed`.
std::string signature_head(bool lowercase, int64_t references);

}  // namespace attend::metric
