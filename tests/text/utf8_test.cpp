#include "attend/text/utf8.h"

#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

TEST(Utf8, Validation) {
  for (const char* text : {"", "plain ascii longer than eight bytes", "é", "今天", "😀", "abcdefgh今", "\u0000"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text :
       {"\xff", "12345678\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xbb", "今\xbb"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Utf8, RepairFollowsUnicodesRecommendation) {
  const auto expect = [](std::string_view bytes, const std::string& text, int64_t replaced) {
    const RepairedText repaired = repair_utf8(bytes);
    EXPECT_EQ(repaired.text, text);
    EXPECT_EQ(repaired.replaced, replaced);
  };
  expect("今天", "今天", 0);
  expect(
      "a\xff"
      "b",
      "a�b", 1);
  expect("\xe4\xbb", "�", 1);
  expect(
      "\xe4\xbb"
      "a\xf0\x9f\x98",
      "�a�", 2);
  expect("\xc0\xaf", "��", 2);
  expect("\xf1\x80\x80\xe1\x80\xc2\x62", "���b", 3);  // part of the example in Unicode's table 3-8
}

TEST(Utf8, CodePointsAndBack) {
  EXPECT_EQ(code_points("aé今😀"), U"aé今😀");
  EXPECT_EQ(to_utf8(U"aé今😀"), "aé今😀");
  expect_error<FormatError>([] { code_points("ab\xff"); }, "text: expected UTF-8, got an invalid sequence at byte 2");
  std::string out;
  expect_error<ShapeError>([&] { append_utf8(out, 0xd800); },
                           "append_utf8: expected a Unicode scalar value, got 55296");
  EXPECT_THROW(append_utf8(out, 0x110000), ShapeError);
}

TEST(Utf8, Blanks) {
  for (const char* text : {"", " \t\r\n", "\u3000", "\u00a0\u2028\u2003"}) EXPECT_TRUE(is_blank(text));
  for (const char* text : {"a", " 。", "\u200b", "\xff"}) EXPECT_FALSE(is_blank(text));
}

TEST(Utf8, LowerCaseInEveryScript) {
  EXPECT_EQ(lower_case("ÄÖÜ ß ẞ"), "äöü ß ß");
  EXPECT_EQ(lower_case("ΟΔΥΣΣΕΥΣ Σ"), "οδυσσευς σ");
  EXPECT_EQ(lower_case("Привет, 今天 I"), "привет, 今天 i");
  EXPECT_EQ(lower_case("İ"), "i\u0307") << "not as a Turk would write";
  EXPECT_THROW(lower_case("\xff"), FormatError);
}

}  // namespace
}  // namespace attend
