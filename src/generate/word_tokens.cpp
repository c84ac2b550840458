#include "generate/word_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "attend/generate/align.h"
#include "attend/generate/text_stream.h"
#include "attend/text/segment.h"
#include "attend/text/utf8.h"

namespace attend {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

struct CodeRange {
  char32_t first, last;
};
// Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, and the blocks of Chinese characters.
constexpr std::array<CodeRange, 7> kWithoutBlanks{{{0x0e00, 0x0eff},
                                                   {0x1000, 0x109f},
                                                   {0x1780, 0x17ff},
                                                   {0x3040, 0x30ff},
                                                   {0x3400, 0x9fff},
                                                   {0xf900, 0xfaff},
                                                   {0x20000, 0x3ffff}}};

bool is_written_without_blanks(std::string_view text) {
  return std::ranges::any_of(code_points(text), [](char32_t code) {
    return std::ranges::any_of(kWithoutBlanks,
                               [&](const CodeRange& range) { return code >= range.first && code <= range.last; });
  });
}

void add_segments(std::string_view chunk, size_t offset, std::vector<WordPlace>& places) {
  size_t from = 0;
  for (const std::string& word : segment(chunk)) {
    const size_t begin = chunk.find(word, from);
    from = begin + word.size();
    places.push_back({offset + begin, offset + from});
  }
}

}  // namespace

std::vector<WordPlace> word_places(const std::string& text) {
  std::vector<WordPlace> places;
  for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const auto chunk = std::string_view(text).substr(begin, end - begin);
    if (is_written_without_blanks(chunk)) {
      add_segments(chunk, begin, places);
    } else {
      places.push_back({begin, end});
    }
    begin = text.find_first_not_of(kBlanks, end);
  }
  return places;
}

std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, const std::string& text,
                                    const std::vector<WordPlace>& words) {
  const auto count = std::ssize(tokenizer.encode(text));
  std::vector<TokenRange> ranges;
  int64_t before = 0;
  for (const WordPlace& word : words) {
    const bool is_last = &word == &words.back();
    const int64_t until = is_last ? count : std::ssize(tokenizer.encode(std::string_view(text).substr(0, word.end)));
    const int64_t last = std::clamp(until, before, count);
    ranges.push_back(
        {last > before ? before : std::max<int64_t>(before - 1, 0), std::max(last, std::min(count, int64_t{1}))});
    before = last;
  }
  return ranges;
}

std::vector<TokenRange> word_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                    const std::vector<WordPlace>& words) {
  std::vector<size_t> ends;  // bytes of the text up to each token
  TextStream stream(tokenizer);
  for (size_t i = 0, bytes = 0; i < ids.size(); ++i) {
    bytes += stream.push(ids[i]).size();
    if (i + 1 == ids.size()) bytes += stream.finish().size();
    ends.push_back(bytes);
  }
  std::vector<TokenRange> ranges;
  int64_t before = 0;
  for (const WordPlace& word : words) {
    const int64_t until = std::ranges::lower_bound(ends, word.end) - ends.begin() + 1;
    const int64_t last = std::clamp(until, before, std::ssize(ends));
    ranges.push_back({.first = last > before ? before : std::max<int64_t>(last - 1, 0), .last = last});
    before = last;
  }
  return ranges;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const WordPlace& place : word_places(text)) words.push_back(text.substr(place.begin, place.end - place.begin));
  return words;
}

}  // namespace attend
