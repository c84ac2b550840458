#include "text/tokenizers/bpe.h"

#include <map>

#include "testing/gradients.h"
#include "text/random_text.h"

namespace attend::text {
namespace {

using Ids = std::vector<int32_t>;
using testing::expect_error;

Ids encoded(const Bpe& bpe, std::string_view piece) {
  Ids ids;
  bpe.encode(piece, ids);
  return ids;
}

/// A random vocabulary over a few letters, whose merges build on each other.
Json random_model(testing::RandomText& random, int merges) {
  std::vector<std::string> tokens{"a", "b", "c", "d"};
  Json model{{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}};
  for (int i = 0; i < merges; ++i) {
    const std::string left = tokens[random.below(static_cast<uint32_t>(tokens.size()))],
                      right = tokens[random.below(static_cast<uint32_t>(tokens.size()))];
    if (left.size() + right.size() > 12) continue;
    model["merges"].push_back({left, right});
    tokens.push_back(left + right);
  }
  int id = 0;
  for (const std::string& token : tokens) model["vocab"][token] = id++;
  return model;
}

/// The definition, slow but simple: merge the leftmost pair of the lowest rank until there is none.
Ids defined(const Json& model, const std::string& word) {
  std::map<std::pair<std::string, std::string>, int> ranks;
  int rank = 0;
  for (const Json& merge : model["merges"]) ranks[{merge[0].string(), merge[1].string()}] = rank++;
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  for (;;) {
    size_t best = symbols.size();
    int lowest = rank;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < lowest) lowest = found->second, best = i;
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) ids.push_back(model["vocab"][symbol].get<int32_t>());
  return ids;
}

TEST(Bpe, EqualsItsDefinition) {
  testing::RandomText random(7);
  for (int round = 0; round < 60; ++round) {
    const Json model = random_model(random, 1 + static_cast<int>(random.below(40)));
    const Bpe bpe(model, false);
    for (int i = 0; i < 60; ++i) {
      std::string word;
      // Lengths on both sides of the switch from scanning all pairs to a heap.
      for (uint32_t length = 1 + random.below(i % 2 == 0 ? 12 : 120); length > 0; --length)
        word += "abcd"[random.below(4)];
      ASSERT_EQ(encoded(bpe, word), defined(model, word)) << word << " with " << model["merges"];
    }
  }
}

TEST(Bpe, AMegabyteWithoutABlankIsNotQuadratic) {
  const Json model{
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"aa", 1}, {"aaaa", 2}, {"b", 3}}}, {"merges", {"a a", "aa aa"}}};
  const Bpe bpe(model, true);
  EXPECT_EQ(encoded(bpe, std::string(1 << 20, 'a')), Ids(1 << 18, 2));  // quadratic, this would take hours
}

TEST(Bpe, UnknownCharacters) {
  Json model{
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"<unk>", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}}}, {"merges", Json::array()}};
  EXPECT_EQ(encoded(Bpe(model, false), "axya"), (Ids{0, 0})) << "without a token for them they are left out";
  model["unk_token"] = "<unk>";
  EXPECT_EQ(encoded(Bpe(model, false), "axya"), (Ids{0, 1, 1, 0}));
  EXPECT_EQ(encoded(Bpe(model, false), "é"), (Ids{1}));
  model["fuse_unk"] = true;
  EXPECT_EQ(encoded(Bpe(model, false), "axya"), (Ids{0, 1, 0}));
  model["byte_fallback"] = true;
  EXPECT_EQ(encoded(Bpe(model, false), "aéx"), (Ids{0, 2, 3, 1}));
}

TEST(Bpe, PrefixAndSuffixMarkPositionsInAWord) {
  const Json suffix{{"type", "BPE"},
                    {"end_of_word_suffix", "</w>"},
                    {"vocab", {{"a", 0}, {"b", 1}, {"b</w>", 2}, {"ab</w>", 3}, {"a</w>", 4}}},
                    {"merges", {"a b</w>"}}};
  EXPECT_EQ(encoded(Bpe(suffix, false), "ab"), (Ids{3}));
  EXPECT_EQ(encoded(Bpe(suffix, false), "aba"), (Ids{0, 1, 4}));
  const Json prefix{{"type", "BPE"},
                    {"continuing_subword_prefix", "##"},
                    {"vocab", {{"a", 0}, {"##b", 1}, {"ab", 2}}},
                    {"merges", {"a ##b"}}};
  EXPECT_EQ(encoded(Bpe(prefix, false), "ab"), (Ids{2}));
}

TEST(Bpe, IgnoreMergesTakesWholePiecesThatAreTokens) {
  Json model{{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", Json::array()}};
  EXPECT_EQ(encoded(Bpe(model, false), "ab"), (Ids{0, 1})) << "a token that no merge reaches";
  model["ignore_merges"] = true;
  EXPECT_EQ(encoded(Bpe(model, false), "ab"), (Ids{2}));
}

TEST(Bpe, InvalidModelsAreRefused) {
  Json model{{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}};
  expect_error<FormatError>([&] { Bpe(model, false); },
                            "the merge of 'a' and 'b' needs a token that is not in the vocabulary");
  model["merges"] = {"ab"};
  expect_error<FormatError>([&] { Bpe(model, false); }, "expected a merge of two tokens, got 'ab'");
  model["merges"] = {1};
  expect_error<FormatError>([&] { Bpe(model, false); }, "a merge must be a string or a pair of strings, got number");
  model["merges"] = Json::array();
  model["vocab"]["b"] = 5'000'000'000;
  expect_error<FormatError>([&] { Bpe(model, false); }, "the id of 'b' must be from 0 to 3999999, got 5000000000");
}

}  // namespace
}  // namespace attend::text
