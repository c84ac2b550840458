#include "grammar/pattern.h"

#include <gtest/gtest.h>

#include "attend/base/error.h"
#include "attend/text/utf8.h"

namespace attend::grammar {
namespace {

void expect_matches(const char* pattern, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  const Dfa dfa = compile_pattern(pattern);
  for (const std::string& text : good) EXPECT_TRUE(dfa.matches(code_points(text))) << pattern << " " << text;
  for (const std::string& text : bad) EXPECT_FALSE(dfa.matches(code_points(text))) << pattern << " " << text;
}

std::string error_of(const char* pattern) {
  try {
    compile_pattern(pattern);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(Pattern, MatchesAnywhereUnlessAnchored) {
  expect_matches("ab", {"ab", "xaby", "aab"}, {"", "a", "ba"});
  expect_matches("^ab", {"ab", "abx"}, {"xab"});
  expect_matches("ab$", {"ab", "xab"}, {"abx"});
  expect_matches("^ab|cd$", {"abx", "xcd"}, {"xab", "cdx"});
  expect_matches("^(a|b$)", {"ax", "b"}, {"bx"});
  expect_matches("", {"", "x"}, {});
  expect_matches("^$", {""}, {"x"});
}

TEST(Pattern, QuantifiersAndGroups) {
  expect_matches("^a{2,3}$", {"aa", "aaa"}, {"a", "aaaa"});
  expect_matches("^(ab){2}c?$", {"abab", "ababc"}, {"ab", "ababab"});
  expect_matches("^(?:a|bc)*d+?$", {"d", "abcad", "dd"}, {"", "b", "bd"});
  expect_matches("^(?<year>\\d{4})$", {"2024"}, {"24"});
  expect_matches("^(a*)*b$", {"b", "aab"}, {"a"});
  expect_matches("^a{0}b{2,}$", {"bb", "bbbb"}, {"ab", "b"});
}

TEST(Pattern, ClassesAndEscapes) {
  expect_matches("^[a-c\\d_-]+$", {"ab3-_"}, {"d"});
  expect_matches("^[^a-z]$", {"A", "天", "\n"}, {"a"});
  expect_matches("^.$", {"a", "😀"}, {"\n", "ab"});
  expect_matches("^\\w\\s\\S\\W\\D$", {"a b!x"}, {"! b!x"});
  expect_matches("^\\u5929\\x41\\t\\.$", {"天A\t."}, {"天A\tx"});
  expect_matches("^\\u{1F600}\\ud83d\\ude00$", {"😀😀"}, {"😀"});
  expect_matches("^\\p{Lu}\\p{Script=Han}\\P{L}$", {"É天1"}, {"é天1", "ÉA1"});
  expect_matches("^[\\]\\\\]$", {"]", "\\"}, {"a"});
}

TEST(Pattern, RefusesByName) {
  EXPECT_EQ(error_of("a(?=b)"), "pattern 'a(?=b)': look-around is not supported");
  EXPECT_EQ(error_of("(?<!b)"), "pattern '(?<!b)': look-around is not supported");
  EXPECT_EQ(error_of("(a)\\1"), "pattern '(a)\\1': back-references are not supported");
  EXPECT_EQ(error_of("\\bx"), "pattern '\\bx': word boundaries (\\b, \\B) are not supported");
  for (const char* pattern : {"(", ")", "a)", "[a", "*", "a**", "a{2,1}", "a{", "\\", "\\q", "[b-a]", "\\u12",
                              "\\p{Xyz}", "\\ud800", "(?i)a", "[\\d-x]"}) {
    EXPECT_NE(error_of(pattern), "") << pattern;
  }
  EXPECT_EQ(error_of("a^b"), "pattern 'a^b' cannot be used: no text matches");
  EXPECT_EQ(error_of("[]"), "pattern '[]' cannot be used: no text matches");
}

TEST(Pattern, RefusesWhatExplodes) {
  for (const char* pattern : {"^(a|b)*a(a|b){30}$", "((a{500}){500})", "(((a{0,99}){0,99}){0,99})"}) {
    EXPECT_NE(error_of(pattern).find("cannot be used"), std::string::npos) << pattern;
  }
}

TEST(Pattern, TextsExceptAndLengths) {
  const Dfa others = texts_except({"ab", "天", ""});
  for (const char32_t* text : {U"a", U"abc", U"b", U"天天"}) EXPECT_TRUE(others.matches(text));
  for (const char32_t* text : {U"ab", U"天", U""}) EXPECT_FALSE(others.matches(text));
  const Dfa some = with_length(compile_pattern("^a*b?$"), 2, 3);
  for (const char32_t* text : {U"aa", U"ab", U"aab"}) EXPECT_TRUE(some.matches(text));
  for (const char32_t* text : {U"a", U"aaaa", U"aaab"}) EXPECT_FALSE(some.matches(text));
  EXPECT_TRUE(with_length(compile_pattern("a"), 3, {}).matches(U"xxxax"));
  EXPECT_THROW(with_length(compile_pattern("^a$"), 2, {}), FormatError);
}

}  // namespace
}  // namespace attend::grammar
