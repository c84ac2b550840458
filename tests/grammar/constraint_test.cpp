// Constraints on tokens: every text that a tokenizer's allowed tokens give is in the grammar.
#include "attend/grammar/constraint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "attend/base/error.h"
#include "attend/generate/text_stream.h"
#include "attend/grammar/json_schema.h"
#include "generate/byte_tokenizer.h"
#include "grammar/validator.h"
#include "grammar/walks.h"

namespace attend {
namespace {

using testing::Draws;

std::shared_ptr<const TokenTrie> trie_of(std::vector<std::string> bytes) {
  return std::make_shared<const TokenTrie>(std::move(bytes));
}

std::vector<int32_t> tokens_of(const TokenMask& mask) {
  std::vector<int32_t> result;
  for (int32_t id = 0; id < std::ssize(mask.words) * 64; ++id) {
    if (mask.allows(id)) result.push_back(id);
  }
  return result;
}

const Json kPerson = Json::parse(R"({"type":"object","properties":{
    "姓名":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},
    "tags":{"type":"array","items":{"enum":["red","绿色"]},"maxItems":3}},"required":["姓名","age"]})");

TEST(TokenMask, SetsOtherScoresToMinusInfinity) {
  TokenMask mask{.words = {uint64_t{5}, ~uint64_t{0}}, .count = 66};
  std::vector<float> scores(140, 1);
  mask.apply(scores);
  for (int32_t id = 0; id < 140; ++id) {
    EXPECT_EQ(scores[static_cast<size_t>(id)] == 1, id == 0 || id == 2 || (id >= 64 && id < 128)) << id;
    EXPECT_EQ(mask.allows(id), scores[static_cast<size_t>(id)] == 1);
  }
  EXPECT_FALSE(mask.allows(-1));
}

TEST(Constraint, AllowsTheTokensThatContinueAText) {
  //                                  0    1     2    3      4     5   6    7    8    9
  const auto trie = trie_of({"{", "{\"", "a", "\":", "tru", "e", "}", "", "e}", "true"});
  const auto constraint =
      Constraint::create(json_schema_grammar(Json::parse(R"({"properties":{"a":{"const":true}}})")), trie);
  Constraint::Cursor cursor = constraint->start();
  EXPECT_EQ(tokens_of(*cursor.allowed()), (std::vector{0, 1}));
  EXPECT_FALSE(cursor.is_complete());
  Constraint::Cursor copy = cursor;
  cursor.push(1);
  EXPECT_EQ(tokens_of(*cursor.allowed()), std::vector{2});
  EXPECT_THROW(cursor.push(4), Error);
  cursor.push(2), cursor.push(3);
  EXPECT_EQ(tokens_of(*cursor.allowed()), (std::vector{4, 9}));
  cursor.push(7);  // no bytes: nothing changes
  cursor.push(4);
  EXPECT_EQ(tokens_of(*cursor.allowed()), (std::vector{5, 8}));
  cursor.push(8);
  EXPECT_TRUE(cursor.is_final());
  EXPECT_EQ(cursor.allowed()->count, 0);
  EXPECT_EQ(tokens_of(*copy.allowed()), (std::vector{0, 1}));
}

TEST(Constraint, EqualTokensAreAllAllowed) {
  const auto constraint =
      Constraint::create(json_schema_grammar(Json{{"const", 12}}), trie_of({"1", "2", "1", "12", "3"}));
  EXPECT_EQ(tokens_of(*constraint->start().allowed()), (std::vector{0, 2, 3}));
}

TEST(Constraint, RefusesATokenizerThatCannotBegin) {
  EXPECT_THROW(Constraint::create(json_object_grammar(), trie_of({"a", "b"})), Error);
}

TEST(TokenTrie, AVocabularyWithoutLettersOrDigitsHasBytes) {
  const testing::ByteTokenizer tokenizer(6, '[');  // [ \\ ] ^ _ `
  const auto trie = std::make_shared<const TokenTrie>(tokenizer);
  EXPECT_EQ(trie->bytes(5), "[");
  EXPECT_EQ(trie->bytes(7), "]");
  const auto constraint = Constraint::create(json_schema_grammar(Json::parse(R"({"maxItems":1})")), trie);
  EXPECT_EQ(tokens_of(*constraint->start().allowed()), std::vector{5});
}

TEST(Constraint, AFullMemoryIsReplaced) {
  // Each nesting of arrays and objects is a state of its own: far more than a memory keeps.
  const auto trie = trie_of({"{\"\":", "[", "]", "}", "1", ",", "\"\":"});
  const auto constraint = Constraint::create(json_schema_grammar(Json(true)), trie);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    Constraint::Cursor cursor = constraint->start();
    std::string text;
    for (int i = 0; i < 400 && !cursor.is_final(); ++i) {
      const std::vector<int32_t> allowed = tokens_of(*cursor.allowed());
      if (allowed.empty() && cursor.is_complete()) break;  // a number of 18 digits
      ASSERT_FALSE(allowed.empty()) << text;
      int32_t id = allowed[draws.below(allowed.size())];
      for (const int32_t closing : {6, 4, 2, 3}) {
        if (i > 40 && std::ranges::count(allowed, closing) > 0) id = closing;
      }
      text += trie->bytes(id);
      cursor.push(id);
    }
    EXPECT_TRUE(cursor.is_complete()) << text;
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
}

TEST(ConstraintCache, SharesConstraintsByKey) {
  class None final : public Tokenizer {
   public:
    std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
    std::string decode(std::span<const int32_t> ids, bool) const override {
      std::string result;
      for (const int32_t id : ids) result += static_cast<char>(id);
      return result;
    }
    int64_t size() const override { return 128; }
    std::string token(int32_t id) const override { return {static_cast<char>(id)}; }
    std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
    const SpecialTokens& special() const override { return special_; }
    void save(const std::string&) const override {}

   private:
    SpecialTokens special_{};
  } tokenizer;
  ConstraintCache cache(tokenizer);
  int made = 0;
  const auto make = [&] { return ++made, json_object_grammar(); };
  const auto first = cache.get("a", make);
  EXPECT_EQ(cache.get("a", make), first);
  EXPECT_NE(cache.get("b", make), first);
  EXPECT_EQ(made, 2);
  for (int i = 0; i < 40; ++i) cache.get(std::to_string(i), make);
  EXPECT_NE(cache.get("a", make), first);  // evicted
}

/// A tokenizer folder of the shared data.
class RealTokenizer : public ::testing::TestWithParam<const char*> {};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Writes a random text token by token, as the engine does.
std::string written(const Tokenizer& tokenizer, const Constraint& constraint, uint64_t seed, double& steps_ms,
                    int& steps) {
  Draws draws(seed);
  Constraint::Cursor cursor = constraint.start();
  TextStream stream(tokenizer, tokenizer.encode("x:"));
  std::vector<float> scores(static_cast<size_t>(tokenizer.size()));
  std::string text;
  for (int i = 0; i < 300; ++i) {
    if (cursor.is_final() || (cursor.is_complete() && draws.below(2) == 0)) break;
    std::ranges::fill(scores, 0.F);
    const auto begin = std::chrono::steady_clock::now();
    cursor.allowed()->apply(scores);
    steps_ms += milliseconds_since(begin);
    ++steps;
    std::vector<int32_t> allowed;
    for (size_t id = 0; id < scores.size(); ++id) {
      if (std::isfinite(scores[id])) allowed.push_back(static_cast<int32_t>(id));
    }
    if (allowed.empty()) break;
    int32_t id = allowed[draws.below(allowed.size())];
    if (i > 30) {  // prefer to close
      for (const int32_t one : allowed) {
        const std::string bytes = tokenizer.decode(std::array{one});
        if (bytes == "\"" || bytes == "}" || bytes == "]") id = one;
      }
    }
    cursor.push(id);
    text += stream.push(id);
  }
  EXPECT_TRUE(cursor.is_complete()) << text;
  return text + stream.finish();
}

TEST_P(RealTokenizer, WritesValidTexts) {
  const std::string folder = std::string(ATTEND_SOURCE_DIR) + "/../shared/data/tokenizers/" + GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto tokenizer = load_tokenizer(folder);
  auto begin = std::chrono::steady_clock::now();
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  std::cout << GetParam() << ": " << tokenizer->size() << " tokens, trie of " << trie->nodes().size() << " nodes in "
            << milliseconds_since(begin) << " ms\n";
  // What encode() makes of a JSON text is allowed, token by token.
  const auto constraint = Constraint::create(json_schema_grammar(kPerson), trie);
  const std::string sample = R"({"姓名": "李😀", "age": 42, "tags": ["绿色"]})";
  Constraint::Cursor cursor = constraint->start();
  for (const int32_t id : tokenizer->encode(sample)) {
    ASSERT_TRUE(cursor.allowed()->allows(id)) << tokenizer->token(id);
    cursor.push(id);
  }
  EXPECT_TRUE(cursor.is_complete());
  const testing::Validator validator(kPerson);
  double steps_ms = 0;
  int steps = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::string text = written(*tokenizer, *constraint, seed, steps_ms, steps);
    ASSERT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(validator.accepts(Json::parse(text))) << text;
  }
  // The first mask inside a string is the most work; a second text finds all masks.
  begin = std::chrono::steady_clock::now();
  const auto any = Constraint::create(json_object_grammar(), trie);
  Constraint::Cursor inside = any->start();
  for (const int32_t id : tokenizer->encode("{\"a")) inside.push(id);
  const auto count = inside.allowed()->count;
  std::cout << "  first mask inside a string: " << count << " tokens, " << milliseconds_since(begin)
            << " ms; a step: " << 1000 * steps_ms / steps << " us on average";
  double again_ms = 0;
  int again = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) written(*tokenizer, *constraint, seed, again_ms, again);
  std::cout << ", " << 1000 * again_ms / again << " us with known masks\n";
  EXPECT_EQ(again, steps);
  EXPECT_GT(count, tokenizer->size() / 2);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, RealTokenizer, ::testing::Values("gpt2", "qwen2.5", "llama2"),
                         [](const auto& param) { return std::string(param.param).substr(0, 4); });

}  // namespace
}  // namespace attend
