#include "attend/generate/text_stream.h"

#include <gtest/gtest.h>

#include "attend/text/utf8.h"
#include "generate/byte_tokenizer.h"

namespace attend {
namespace {

using testing::ByteTokenizer;

std::vector<std::string> streamed(const std::vector<int32_t>& ids, const std::vector<int32_t>& before = {}) {
  const ByteTokenizer tokenizer;
  TextStream stream(tokenizer, before);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(stream.push(id));
  pieces.push_back(stream.finish());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

TEST(TextStream, GivesWholeCharactersOnly) {
  const ByteTokenizer tokenizer;
  const std::string text = "Hi, 今天天气很好! 👩🏽‍🚀 naïve — שלום";
  const auto pieces = streamed(tokenizer.encode(text, false));
  EXPECT_EQ(joined(pieces), text);
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(is_utf8(piece));
    EXPECT_EQ(piece.find("\uFFFD"), std::string::npos);
  }
  EXPECT_EQ(pieces[0], "H");  // at once
  EXPECT_EQ(pieces[4], "");
  EXPECT_EQ(pieces[5], "");
  EXPECT_EQ(pieces[6], "今");
  EXPECT_EQ(pieces.back(), "");
}

TEST(TextStream, BrokenBytesComeAsDecodeGivesThem) {
  const ByteTokenizer tokenizer;
  std::vector<int32_t> ids{5 + 0xe4, 5 + 0xbb, 5 + 'a', 5 + 0xff, 5 + 0xff, 5 + 'b', 5 + 0xe4};
  const auto pieces = streamed(ids);
  EXPECT_EQ(joined(pieces), tokenizer.decode(ids, false));
  EXPECT_EQ(pieces[2], "\uFFFDa");
  EXPECT_EQ(pieces.back(), "\uFFFD");
  const std::vector<int32_t> endless(300, 5 + 0xff);
  EXPECT_EQ(joined(streamed(endless)), tokenizer.decode(endless, false));
}

TEST(TextStream, GoesOnFromWhatWasBefore) {
  const ByteTokenizer tokenizer;
  const std::vector<int32_t> before = tokenizer.encode("before 今", false);
  const std::vector<int32_t> cut(before.begin(), before.end() - 1);  // the prompt ends within a character
  EXPECT_EQ(joined(streamed(tokenizer.encode("after", false), before)), "after");
  auto rest = tokenizer.encode("\xE4\xBB\x8A!", false);
  EXPECT_EQ(joined(streamed({rest[2], rest[3]}, cut)).back(), '!');
}

std::vector<std::string> filtered(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter filter(stops);
  std::vector<std::string> shown;
  for (const std::string& piece : pieces) shown.push_back(filter.push(piece));
  shown.push_back(filter.finish());
  return shown;
}

TEST(StopFilter, HoldsBackWhatMayBecomeAStop) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(filtered({"END"}, {"a E", "N", "x", "y"}), (Pieces{"a ", "", "ENx", "y", ""}));
  EXPECT_EQ(filtered({"END"}, {"a E", "N", "D b", "c"}), (Pieces{"a ", "", "", "", ""}));
  EXPECT_EQ(filtered({"END"}, {"a E"}), (Pieces{"a ", "E"}));
  EXPECT_EQ(filtered({"\n\n", "bc"}, {"ab", "c\n\n"}), (Pieces{"a", "", ""}));
  EXPECT_EQ(filtered({"。"}, {"今天", "很好。再见"}), (Pieces{"今天", "很好", ""}));
  EXPECT_EQ(filtered({}, {"a", "b"}), (Pieces{"a", "b", ""}));
  EXPECT_EQ(filtered({""}, {"a", "b"}), (Pieces{"a", "b", ""}));
  EXPECT_EQ(filtered({"aab"}, {"a", "a", "a", "b", "c"}), (Pieces{"", "", "a", "", "", ""}));
}

}  // namespace
}  // namespace attend
