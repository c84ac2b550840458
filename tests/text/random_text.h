#pragma once

#include <random>
#include <string>
#include <vector>

#include "attend/text/utf8.h"

namespace attend::testing {

/// Random text of many scripts, rich in characters that often break tokenizers: blanks of all kinds, apostrophes,
/// joiners, combining marks, right-to-left letters, code points beyond the basic plane.
class RandomText {
 public:
  explicit RandomText(uint32_t seed) : engine_(seed) {}

  std::string text(size_t pieces) {
    std::string out;
    for (size_t i = 0; i < pieces; ++i) out += piece();
    return out;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }

 private:
  std::string piece() {
    static const std::vector<std::string> kPieces{" ",
                                                  "  ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "\u00a0",
                                                  "\u3000",
                                                  "\u2003",
                                                  "\u0085",
                                                  "\u200b",
                                                  "\ufeff",
                                                  "\u180e",
                                                  "\v",
                                                  "'",
                                                  "'s",
                                                  "'S",
                                                  "'ll",
                                                  "'LL",
                                                  "'Re",
                                                  "'\u017f",
                                                  "'ve",
                                                  "’s",
                                                  "don't",
                                                  "word",
                                                  "Hello",
                                                  "WORLD",
                                                  "123",
                                                  "4567",
                                                  "½",
                                                  "٣",
                                                  "é",
                                                  "e\u0301",
                                                  "ß",
                                                  "İ",
                                                  "Ǆ",
                                                  "中文",
                                                  "天气",
                                                  "。",
                                                  "，",
                                                  "漢字かな",
                                                  "カタカナ",
                                                  "한국어",
                                                  "العربية",
                                                  "עברית",
                                                  "हिन्दी",
                                                  "ภาษาไทย",
                                                  "👩‍👩‍👧",
                                                  "🇨🇳",
                                                  "👍🏽",
                                                  "😀",
                                                  "𠮷",
                                                  "ﬁ",
                                                  "２",
                                                  "--",
                                                  "...",
                                                  "!?",
                                                  "$",
                                                  "€",
                                                  "_",
                                                  "#",
                                                  "\u200d",
                                                  "<",
                                                  ">",
                                                  "a",
                                                  "b",
                                                  "c",
                                                  "x",
                                                  "\u0300",
                                                  "\u0327",
                                                  "\x01",
                                                  "\x7f",
                                                  "Å",
                                                  "\u212b",
                                                  "\u1100\u1161\u11a8"};
    if (below(8) > 0) return kPieces[below(static_cast<uint32_t>(kPieces.size()))];
    static const char32_t kEnds[] = {0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000};
    for (;;) {
      const char32_t code = 1 + below(kEnds[below(6)] - 1);
      if (code >= 0xd800 && code <= 0xdfff) continue;
      std::string out;
      append_utf8(out, code);
      return out;
    }
  }

  std::mt19937 engine_;
};

}  // namespace attend::testing
