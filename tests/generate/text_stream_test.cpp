#include "attend/generate/text_stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "attend/text/utf8.h"
#include "generate/byte_tokenizer.h"
#include "testing/temporary_folder.h"

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
  EXPECT_EQ(pieces[0], "H");  // immediately
  EXPECT_EQ(pieces[4], "");
  EXPECT_EQ(pieces[5], "");
  EXPECT_EQ(pieces[6], "今");
  EXPECT_EQ(pieces.back(), "");
}

TEST(TextStream, InvalidBytesAreReplacedAsByDecode) {
  const ByteTokenizer tokenizer;
  std::vector<int32_t> ids{5 + 0xe4, 5 + 0xbb, 5 + 'a', 5 + 0xff, 5 + 0xff, 5 + 'b', 5 + 0xe4};
  const auto pieces = streamed(ids);
  EXPECT_EQ(joined(pieces), tokenizer.decode(ids, false));
  EXPECT_EQ(pieces[2], "\uFFFDa");
  EXPECT_EQ(pieces.back(), "\uFFFD");
  const std::vector<int32_t> endless(300, 5 + 0xff);
  EXPECT_EQ(joined(streamed(endless)), tokenizer.decode(endless, false));
}

TEST(TextStream, ContinuesAPrompt) {
  const ByteTokenizer tokenizer;
  const std::vector<int32_t> before = tokenizer.encode("before 今", false);
  const std::vector<int32_t> cut(before.begin(), before.end() - 1);  // the prompt ends inside a character
  EXPECT_EQ(joined(streamed(tokenizer.encode("after", false), before)), "after");
  auto rest = tokenizer.encode("\xE4\xBB\x8A!", false);
  EXPECT_EQ(joined(streamed({rest[2], rest[3]}, cut)).back(), '!');
}

/// Like the first Llama models: a token for each byte; a run of them is decoded only if it is all UTF-8. A space is ▁,
/// and a leading space is dropped.
class ByteFallback : public ::testing::Test {
 protected:
  ByteFallback() {
    nlohmann::json vocabulary{{"<s>", 0}, {"▁", 1}, {"▁ok", 2}, {"x", 3}};
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      vocabulary[name] = 4 + byte;
    }
    const nlohmann::json decoders{{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                                  {{"type", "ByteFallback"}},
                                  {{"type", "Fuse"}},
                                  {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
    const nlohmann::json document{
        {"added_tokens", {{{"id", 0}, {"content", "<s>"}, {"special", true}}}},
        {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
        {"model",
         {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
    std::ofstream(folder_.file("tokenizer.json")) << document.dump();
    tokenizer_ = load_tokenizer(folder_.path());
  }

  static std::vector<int32_t> bytes_of(std::string_view text) {
    std::vector<int32_t> ids;
    for (const unsigned char byte : text) ids.push_back(4 + byte);
    return ids;
  }
  /// The joined pieces of `ids` after `before`; each piece must be UTF-8.
  std::string streamed(const std::vector<int32_t>& ids, const std::vector<int32_t>& before = {}) const {
    TextStream stream(*tokenizer_, before);
    std::string all;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_TRUE(is_utf8(piece));
      all += piece;
    }
    const std::string last = stream.finish();
    EXPECT_TRUE(is_utf8(last));
    return all + last;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(ByteFallback, CharactersOfFourBytesInARow) {
  for (const std::string text : {"🎉🎉🎉🎉", "龘😀龘😀龘", "é🎉龘é🎉龘é🎉龘é🎉龘", "今天天气很好今天天气很好"}) {
    std::vector<int32_t> ids = bytes_of(text);
    ids.push_back(2);
    ASSERT_EQ(tokenizer_->decode(ids), text + " ok");
    EXPECT_EQ(streamed(ids), text + " ok");
    EXPECT_EQ(streamed({2, 3}, bytes_of(text)), " okx");  // after a prompt that ends with it
    ids = bytes_of(text + text);
    const std::vector<int32_t> before(ids.begin(), ids.begin() + std::ssize(text));
    EXPECT_EQ(streamed({ids.begin() + std::ssize(text), ids.end()}, before), text);
  }
}

TEST_F(ByteFallback, SpecialTokensAloneAreNotTheStartOfAText) {
  const std::vector<int32_t> ids{3, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  EXPECT_EQ(streamed(ids), tokenizer_->decode(ids));
  EXPECT_EQ(streamed({0, 0, 0, 2}, {3, 0, 0, 0, 0, 0, 0}), " ok");
}

TEST_F(ByteFallback, AnInvalidByteDoesNotSpoilEarlierPieces) {
  std::vector<int32_t> ids = bytes_of("🎉");
  ids.insert(ids.end(), {4 + 0xff, 2});
  EXPECT_EQ(streamed(ids).substr(0, 4), "🎉");  // decode sees the whole run and would replace it
  const std::vector<int32_t> endless(300, 4 + 0xff);
  EXPECT_EQ(streamed(endless), tokenizer_->decode(endless));
}

std::vector<std::string> filtered(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter filter(stops);
  std::vector<std::string> shown;
  for (const std::string& piece : pieces) shown.push_back(filter.push(piece));
  shown.push_back(filter.finish());
  return shown;
}

TEST(StopFilter, HoldsBackTextThatMayBecomeAStopString) {
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
