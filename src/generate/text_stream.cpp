#include "attend/generate/text_stream.h"

#include <algorithm>
#include <utility>

namespace attend {
namespace {

constexpr size_t kContext = 6;    // tokens decoded before the new ones: enough to decide about a leading space
constexpr size_t kLongest = 4;    // bytes of a character, each of which may be a token
constexpr size_t kMostHeld = 64;  // limit of tokens held back as an incomplete character
constexpr std::string_view kBroken = "\uFFFD";

/// Number of leading bytes of `text` that later tokens cannot change: all but incomplete characters at the end.
size_t settled(std::string_view text) {
  while (text.ends_with(kBroken)) text.remove_suffix(kBroken.size());
  return text.size();
}

/// The offset of the first character that begins at or after `at`.
size_t character_from(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(&tokenizer), ids_(before.begin(), before.end()) {
  const std::string text = tokenizer_->decode(ids_);
  shown_ = text.size();
  keep_few(text);
}

std::string TextStream::push(int32_t id) {
  ids_.push_back(id);
  return grown(false);
}

std::string TextStream::finish() { return grown(true); }

std::string TextStream::grown(bool is_last) {
  const std::string text = tokenizer_->decode(ids_);
  const bool is_whole = is_last || ids_.size() - kept_ > kMostHeld || settled(text) == text.size();
  const size_t end = is_whole ? text.size() : settled(text);
  std::string piece;
  if (end > shown_) piece = text.substr(character_from(text, shown_), end - character_from(text, shown_));
  shown_ = std::max(shown_, end);
  if (is_whole) keep_few(text);
  return piece;
}

/// Drops leading ids if the last few decode to the same text without them. They do not if the window begins inside a
/// character or has no text.
void TextStream::keep_few(const std::string& text) {
  for (size_t count = kContext; count < ids_.size(); count += count < kContext + kLongest ? 1 : count) {
    const std::vector<int32_t> last(ids_.end() - static_cast<ptrdiff_t>(count), ids_.end());
    const std::string rest = tokenizer_->decode(last);
    if (rest.empty() || !text.ends_with(rest)) continue;
    ids_ = last;
    shown_ = rest.size();
    break;
  }
  kept_ = ids_.size();
}

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) { std::erase(stops_, ""); }

std::string StopFilter::push(std::string_view piece) {
  if (is_stopped_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    is_stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, "");
  }
  size_t keep = 0;  // length of the longest suffix that is a prefix of a stop string
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) keep = length;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, ""); }

}  // namespace attend
