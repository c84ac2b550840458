#include "text/tokenizers/scanner.h"

#include <gtest/gtest.h>

#include "text/random_text.h"
#include "text/tokenizers/regex.h"

namespace attend::text {
namespace {

using Pieces = std::vector<std::string>;

const std::vector<std::string> kPatterns{
    std::string(kGpt2Pattern),
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|\s?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

Pieces scanned(const Scanner& scanner, std::string_view text) {
  Pieces pieces;
  scanner.scan({text, true}, [&](Piece piece) { pieces.emplace_back(piece.text); });
  return pieces;
}

Pieces matched(const Regex& regex, std::string_view text) {
  Pieces pieces;
  TextWork work(text.size());
  regex.for_each_match(text, work,
                       [&](Span span) { pieces.emplace_back(text.substr(span.begin, span.end - span.begin)); });
  return pieces;
}

TEST(Scanner, SplitsExactlyAsItsRegex) {
  for (const std::string& pattern : kPatterns) {
    const auto scanner = Scanner::for_pattern(pattern);
    ASSERT_TRUE(scanner) << pattern;
    const Regex regex(pattern);
    testing::RandomText random(1);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random.text(random.below(24));
      ASSERT_EQ(scanned(*scanner, text), matched(regex, text)) << pattern << " on " << ::testing::PrintToString(text);
    }
  }
}

TEST(Scanner, EveryCodePointFallsIntoTheSameClass) {
  for (const std::string& pattern : kPatterns) {
    const auto scanner = Scanner::for_pattern(pattern);
    const Regex regex(pattern);
    for (char32_t code = 1; code < 0x110000; code += code < 0x3000 ? 1 : 61) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      std::string text = "a";
      append_utf8(text, code);
      text += "b '";
      append_utf8(text, code);
      append_utf8(text, code);
      ASSERT_EQ(scanned(*scanner, text), matched(regex, text)) << pattern << " on U+" << std::hex << uint32_t{code};
    }
  }
}

TEST(Scanner, Gpt2Examples) {
  EXPECT_EQ(scanned({}, "Hello  world, it's 3.5\n\nnow "),
            (Pieces{"Hello", " ", " world", ",", " it", "'s", " 3", ".", "5", "\n", "\n", "now", " "}));
  EXPECT_EQ(scanned({}, "IT'S"), (Pieces{"IT", "'", "S"}));
  EXPECT_EQ(scanned({}, ""), Pieces{});
}

TEST(Scanner, OtherExpressionsAreLeftToTheRegex) {
  EXPECT_FALSE(Scanner::for_pattern(""));
  EXPECT_FALSE(Scanner::for_pattern(R"(\s+)"));
  EXPECT_FALSE(Scanner::for_pattern(std::string(kGpt2Pattern) + "|x"));
}

}  // namespace
}  // namespace attend::text
