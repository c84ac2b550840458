#include "generate/encode.h"

#include <algorithm>

#include "attend/base/error.h"

namespace attend {
namespace {

EncodedText between(const Tokenizer& tokenizer, std::vector<int32_t> ids, int64_t longest, int32_t begin) {
  const int32_t end = tokenizer.special().end;
  EncodedText result{.ids = std::move(ids)};
  result.is_blank = result.ids.empty();
  const int64_t room = std::max<int64_t>(longest - (begin >= 0 ? 1 : 0) - (end >= 0 ? 1 : 0), 0);
  result.is_cut = std::ssize(result.ids) > room;
  if (result.is_cut) result.ids.resize(static_cast<size_t>(room));
  if (begin >= 0) result.ids.insert(result.ids.begin(), begin);
  if (end >= 0) result.ids.push_back(end);
  return result;
}

/// How many tokens the tokenizer's template puts behind a text: seen on one that has no special tokens of its own.
size_t template_tail(const Tokenizer& tokenizer) {
  const std::vector<int32_t> plain = tokenizer.encode("a"), framed = tokenizer.encode("a", true);
  const auto found = std::ranges::search(framed, plain);
  return static_cast<size_t>(framed.end() - found.end());
}

std::vector<int32_t> pieces_and_masks(const Tokenizer& tokenizer, std::string_view text) {
  const int32_t mask = tokenizer.special().mask;
  std::vector<int32_t> ids = tokenizer.encode(text);
  const std::string name = mask >= 0 ? tokenizer.token(mask) : "";
  if (name.empty() || std::ranges::find(ids, mask) != ids.end() || text.find(name) == text.npos) return ids;
  ids.clear();
  const bool has_blanks = tokenizer.find(" ").has_value();  // as tokens of their own
  while (true) {
    const size_t at = text.find(name);
    std::string_view part = text.substr(0, at);
    while (at != text.npos && !has_blanks && part.ends_with(' ')) part.remove_suffix(1);
    const std::vector<int32_t> pieces = tokenizer.encode(part);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
    if (at == text.npos) return ids;
    ids.push_back(mask);
    text.remove_prefix(at + name.size());
  }
}

}  // namespace

EncodedText encode_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest,
                          const GenerationRules& rules) {
  const std::string read = rules.prefix + std::string(text);
  EncodedText result = between(tokenizer, tokenizer.encode(read), longest, tokenizer.special().first);
  if (!rules.prefix.empty()) result.is_blank = tokenizer.encode(text).empty();
  return result;
}

EncodedText encode_target(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return between(tokenizer, tokenizer.encode_target(text), longest, tokenizer.special().first);
}

EncodedText encode_classified(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return between(tokenizer, tokenizer.encode(text), longest, tokenizer.special().begin);
}

EncodedText encode_masked(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return between(tokenizer, pieces_and_masks(tokenizer, text), longest, tokenizer.special().begin);
}

int32_t text_start(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  return special.end >= 0 ? special.end : special.begin;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt, const GenerationRules& rules) {
  std::vector<int32_t> ids = tokenizer.encode(prompt, rules.as_transformers);
  const auto is_end = [&](int32_t id) { return id == tokenizer.special().end && id != tokenizer.special().begin; };
  // An end that stands in the prompt itself is part of it.
  size_t tail = rules.as_transformers ? template_tail(tokenizer) : 0;
  for (; tail > 0 && ids.size() > 1 && is_end(ids.back()); --tail) ids.pop_back();
  if (!ids.empty()) return ids;
  const int32_t begin = tokenizer.special().begin;
  const int32_t start = rules.as_transformers && begin >= 0 ? begin : text_start(tokenizer);
  require<FormatError>(start >= 0, "generate: the tokenizer has no token a text begins with: a prompt is needed");
  return {start};
}

}  // namespace attend
