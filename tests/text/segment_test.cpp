#include "attend/text/segment.h"

#include "testing/gradients.h"

namespace attend {
namespace {

using Tokens = std::vector<std::string>;
using testing::expect_error;

TEST(Segment, EachChineseOrJapaneseCharacterIsAToken) {
  EXPECT_EQ(segment("今天天气很好"), (Tokens{"今", "天", "天", "气", "很", "好"}));
  EXPECT_EQ(segment("東京へ行くのか。"), (Tokens{"東", "京", "へ", "行", "く", "の", "か", "。"}));
  EXPECT_EQ(segment("カタカナー"), (Tokens{"カ", "タ", "カ", "ナ", "ー"}));
  EXPECT_EQ(segment("か\u3099"), (Tokens{"か\u3099"})) << "a combining voicing mark stays with its letter";
  EXPECT_EQ(segment("𠮷野"), (Tokens{"𠮷", "野"}));
}

TEST(Segment, WordsInScriptsThatSeparateThem) {
  EXPECT_EQ(segment("The cat, isn't 3.5 km away!"), (Tokens{"The", "cat", ",", "isn't", "3.5", "km", "away", "!"}));
  EXPECT_EQ(segment("오늘 날씨가 좋다"), (Tokens{"오늘", "날씨가", "좋다"}));
  EXPECT_EQ(segment("الطقس جميل"), (Tokens{"الطقس", "جميل"}));
  EXPECT_EQ(segment("सुन्दर मौसम"), (Tokens{"सुन्दर", "मौसम"}));
  EXPECT_EQ(segment("อากาศดี"), (Tokens{"อากาศ", "ดี"}));
  EXPECT_EQ(segment("GPT模型v2"), (Tokens{"GPT", "模", "型", "v2"}));
}

TEST(Segment, EmojiSequencesAreOneToken) {
  EXPECT_EQ(segment("👩‍👩‍👧🇨🇳👍🏽"), (Tokens{"👩‍👩‍👧", "🇨🇳", "👍🏽"}));
}

TEST(Segment, BlanksAndInvisibleCharactersAreLeftOut) {
  EXPECT_EQ(segment(""), Tokens{});
  EXPECT_EQ(segment(" \t\n\u3000\u00a0\u200b\ufeff"), Tokens{});
  EXPECT_EQ(segment("a\r\nb"), (Tokens{"a", "b"}));
}

TEST(Segment, InvalidUtf8IsRefused) {
  expect_error<FormatError>([] { segment("ab\xff"); }, "text: expected UTF-8, got an invalid sequence at byte 2");
  expect_error<FormatError>([] { segment("\xe4\xbb"); }, "text: expected UTF-8, got an invalid sequence at byte 0");
  expect_error<FormatError>([] { graphemes("\xc0\xaf"); }, "text: expected UTF-8, got an invalid sequence at byte 0");
  expect_error<FormatError>([] { graphemes("\xed\xa0\x80"); },
                            "text: expected UTF-8, got an invalid sequence at byte 0");
}

TEST(Graphemes, KeepMarksAndJoiners) {
  EXPECT_EQ(graphemes("e\u0301x"), (Tokens{"e\u0301", "x"}));
  EXPECT_EQ(graphemes("👩‍🚀 "), (Tokens{"👩‍🚀", " "}));
  EXPECT_EQ(graphemes("각"), (Tokens{"각"}));
}

TEST(DisplayWidth, ColumnsOfATerminal) {
  const std::vector<std::pair<std::string, int>> cases{{"", 0},
                                                       {"abc", 3},
                                                       {"今天", 4},
                                                       {"ＡＢ", 4},
                                                       {"ｶﾅ", 2},
                                                       {"e\u0301", 1},
                                                       {"한국", 4},
                                                       {"\u1112\u1161\u11ab", 2},
                                                       {"👍", 2},
                                                       {"👍🏽", 2},
                                                       {"👩‍👩‍👧", 2},
                                                       {"🇨🇳", 2},
                                                       {"❤", 1},
                                                       {"❤\ufe0f", 2},
                                                       {"1\ufe0f\u20e3", 2},
                                                       {"กำ", 2},
                                                       {"कि", 2},
                                                       {"\u200b", 0},
                                                       {"−∞", 2},
                                                       {"“”", 2},
                                                       {"\x1b", 1},
                                                       {"\xff", 1}};
  for (const auto& [text, width] : cases) EXPECT_EQ(display_width(text), width) << text;
}

TEST(Visible, TerminalEscapesAreRemoved) {
  EXPECT_EQ(visible("a\x1b[31m"), "a␛[31m");
  EXPECT_EQ(visible("\x7f\n"), "␡␊");
  EXPECT_EQ(visible("\u0085\xff"), "��");
  EXPECT_EQ(visible("\u0301"), "◌\u0301");
  EXPECT_EQ(visible("今天"), "今天");
}

}  // namespace
}  // namespace attend
