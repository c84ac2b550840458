#include "text/framing.h"

#include <algorithm>

#include "attend/base/error.h"

namespace attend {
namespace {

/// Number of tokens that the tokenizer's template puts after a text, measured on a text without special tokens.
size_t template_tail(const Tokenizer& tokenizer) {
  const std::vector<int32_t> plain = tokenizer.encode("a"), framed = tokenizer.encode("a", true);
  const auto found = std::search(framed.begin(), framed.end(), plain.begin(), plain.end());
  return found == framed.end() ? 0 : static_cast<size_t>(framed.end() - found) - plain.size();
}

std::vector<int32_t> pieces_and_masks(const Tokenizer& tokenizer, std::string_view text) {
  const int32_t mask = tokenizer.special().mask;
  std::vector<int32_t> ids = tokenizer.encode(text);
  const std::string name = mask >= 0 ? tokenizer.token(mask) : "";
  if (name.empty() || std::ranges::find(ids, mask) != ids.end() || text.find(name) == text.npos) return ids;
  ids.clear();
  const bool has_blanks = tokenizer.find(" ").has_value();  // whether a space is a token
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

Frame pair_frame(const SpecialTokens& special) { return {.before = special.first, .after = special.end}; }

Frame encoder_frame(const SpecialTokens& special) { return {.before = special.begin, .after = special.end}; }

int32_t decoder_start(const SpecialTokens& special) { return special.begin >= 0 ? special.begin : special.end; }

int32_t text_start(const SpecialTokens& special) { return special.end >= 0 ? special.end : special.begin; }

int32_t template_begin(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  const std::vector<int32_t> text = tokenizer.encode("a", true);
  const bool is_there = special.begin >= 0 && !text.empty() && text.front() == special.begin;
  return is_there && special.begin != special.end ? special.begin : -1;
}

FramedText framed(std::vector<int32_t> pieces, const Frame& frame, int64_t longest) {
  FramedText result{.ids = std::move(pieces)};
  result.is_blank = result.ids.empty();
  const int64_t room = std::max<int64_t>(longest - frame.size(), 0);
  result.is_cut = std::ssize(result.ids) > room;
  if (result.is_cut) result.ids.resize(static_cast<size_t>(room));
  if (frame.before >= 0) result.ids.insert(result.ids.begin(), frame.before);
  if (frame.after >= 0) result.ids.push_back(frame.after);
  return result;
}

FramedText frame_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest, const std::string& prefix) {
  FramedText result = framed(tokenizer.encode(prefix + std::string(text)), pair_frame(tokenizer.special()), longest);
  if (!prefix.empty()) result.is_blank = tokenizer.encode(text).empty();
  return result;
}

FramedText frame_target(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return framed(tokenizer.encode_target(text), pair_frame(tokenizer.special()), longest);
}

FramedText frame_text(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return framed(tokenizer.encode(text), encoder_frame(tokenizer.special()), longest);
}

FramedText frame_masked(const Tokenizer& tokenizer, std::string_view text, int64_t longest) {
  return framed(pieces_and_masks(tokenizer, text), encoder_frame(tokenizer.special()), longest);
}

std::vector<int32_t> frame_prompt(const Tokenizer& tokenizer, std::string_view prompt, bool uses_template) {
  const SpecialTokens& special = tokenizer.special();
  std::vector<int32_t> ids = tokenizer.encode(prompt, uses_template);
  const auto is_end = [&](int32_t id) { return id == special.end && id != special.begin; };
  // Remove only the end tokens of the template: an end token in the prompt itself is part of the prompt.
  size_t tail = uses_template ? template_tail(tokenizer) : 0;
  for (; tail > 0 && ids.size() > 1 && is_end(ids.back()); --tail) ids.pop_back();
  if (!ids.empty()) return ids;
  const int32_t start = uses_template && special.begin >= 0 ? special.begin : text_start(special);
  require<FormatError>(start >= 0, "generate: the tokenizer has no begin or end token to start from; give a prompt");
  return {start};
}

}  // namespace attend
