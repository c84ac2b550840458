// Vocabularies that cannot write every text: a constraint never leads into a dead end.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "attend/base/error.h"
#include "attend/grammar/constraint.h"
#include "attend/grammar/json_schema.h"
#include "attend/grammar/tool_calls.h"
#include "grammar/random_schemas.h"
#include "grammar/restriction.h"
#include "grammar/validator.h"
#include "grammar/walks.h"

namespace attend {
namespace {

using testing::Draws;
using Texts = std::vector<std::string>;

std::shared_ptr<const TokenTrie> trie_of(const Texts& tokens) { return std::make_shared<const TokenTrie>(tokens); }

/// A token for each character of a text.
Texts characters(const std::string& text) {
  std::set<std::string> result;
  for (size_t at = 0, size = 0; at < text.size(); at += size) {
    for (size = 1; at + size < text.size() && (static_cast<uint8_t>(text[at + size]) & 0xC0) == 0x80;) ++size;
    result.insert(text.substr(at, size));
  }
  return {result.begin(), result.end()};
}

std::shared_ptr<const Constraint> constraint_of(const std::string& schema, const Texts& tokens) {
  return Constraint::create(json_schema_grammar(Json::parse(schema)), trie_of(tokens));
}

std::string refusal_of(const std::string& schema, const Texts& tokens) {
  try {
    constraint_of(schema, tokens);
  } catch (const ConstraintError& error) {
    return error.what();
  }
  return "";
}

std::vector<int32_t> allowed_by(const Constraint::Cursor& cursor, size_t tokens) {
  std::vector<int32_t> result;
  const auto mask = cursor.allowed();
  for (int32_t id = 0; id < static_cast<int32_t>(tokens); ++id) {
    if (mask->allows(id)) result.push_back(id);
  }
  return result;
}

/// All texts of a constraint that allows few.
std::set<std::string> texts_of(const Constraint::Cursor& cursor, const Texts& tokens, const std::string& before = "") {
  std::set<std::string> result;
  if (cursor.is_complete()) result.insert(before);
  const std::vector<int32_t> allowed = allowed_by(cursor, tokens.size());
  EXPECT_TRUE(cursor.is_complete() || !allowed.empty()) << "a dead end after " << before;
  for (const int32_t id : allowed) {
    Constraint::Cursor next = cursor;
    next.push(id);
    result.merge(texts_of(next, tokens, before + tokens[static_cast<size_t>(id)]));
  }
  return result;
}

std::set<std::string> texts_of(const std::string& schema, const Texts& tokens) {
  return texts_of(constraint_of(schema, tokens)->start(), tokens);
}

TEST(Restriction, LeavesOutValuesWithMissingCharacters) {
  using Set = std::set<std::string>;
  EXPECT_EQ(texts_of(R"({"enum":["ax","b"]})", characters("{}\"ab: ")), (Set{"\"b\"", " \"b\""}));
  EXPECT_EQ(texts_of(R"({"enum":["a天","aé","ab"]})", characters("\"ab天")), (Set{"\"a天\"", "\"ab\""}));
  // The bytes of é occur in other characters.
  EXPECT_EQ(texts_of(R"({"enum":["aé","b"]})", characters("\"abÃ天婩")), (Set{"\"b\""}));
  EXPECT_EQ(
      texts_of(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"const":"b"}}})", characters("{}\"ab:")),
      (Set{"{}", R"({"b":"b"})"}));
  EXPECT_EQ(texts_of(R"({"type":"array","items":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"maxItems":2})",
                     characters("[]trueal")),
            (Set{"[]", "[true]"}));
  EXPECT_EQ(texts_of(R"({"type":"integer","minimum":7,"maximum":13})", characters("134")), (Set{"11", "13"}));
}

TEST(Restriction, KnowsWhichCharactersTokensWriteTogether) {
  using Set = std::set<std::string>;
  // b is only in ab, and c only in cd.
  EXPECT_EQ(texts_of(R"({"enum":["ab","b","aab","abb","acd"]})", {"\"", "a", "ab", "cd"}),
            (Set{"\"ab\"", "\"aab\"", "\"acd\""}));
  // The token a begins no text, although the bytes ab do.
  EXPECT_EQ(texts_of(R"({"enum":["ab"]})", {"\"", "a", "ab", "\"a"}), (Set{"\"ab\""}));
  const auto constraint = constraint_of(R"({"enum":["ab"]})", {"\"", "a", "ab", "\"a"});
  EXPECT_EQ(allowed_by(constraint->start(), 4), (std::vector<int32_t>{0}));
  Constraint::Cursor cursor = constraint->start();
  cursor.push(0);
  EXPECT_EQ(allowed_by(cursor, 4), (std::vector<int32_t>{2}));
  EXPECT_THROW(cursor.push(1), Error);
}

TEST(Restriction, RefusesAFormatThatCannotBeWritten) {
  const std::string start = "the vocabulary cannot write any text of this format: it has no token for ";
  EXPECT_EQ(refusal_of(R"({"enum":["x"]})", characters("\"ab")), start + "'x' after '\"'");
  EXPECT_EQ(refusal_of(R"({"enum":["ab天","wxyz"]})", characters("\"ab")), start + "'天' after '\"ab'");
  EXPECT_EQ(refusal_of(R"({"const":"é"})", characters("\"abÃ天婩")), start + "'é' after '\"'");
  EXPECT_EQ(refusal_of(R"({"type":"integer"})", characters("\"ab")), start + "'0'");
  EXPECT_EQ(refusal_of(R"({"type":"object"})", characters("{\"ab")), start + "'}' after '{'");
  EXPECT_EQ(refusal_of(R"({"const":"ab"})", {"\"", "a", "abc"}), start + "'b' after '\"a'");
  EXPECT_EQ(refusal_of(R"({"type":"array","minItems":2000,"items":{"const":1}})", characters("[]1,")), "");
  const std::string nested = refusal_of(
      R"({"$ref":"#/$defs/a","$defs":{"a":{"minItems":2,"items":{"$ref":"#/$defs/b"}},"b":{"minItems":2,"items":
         {"$ref":"#/$defs/c"}},"c":{"minItems":999,"items":{"const":1}}}})",
      characters("[],"));
  EXPECT_EQ(nested, start + "'1' after '[[['");
}

TEST(Restriction, CallsOfFunctions) {
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"up","strict":true,
      "parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}])");
  const auto grammar = [&](const char* choice) {
    return *tool_grammar(read_tools(tools, Json(choice), nullptr), ToolFormat::hermes);
  };
  const Texts letters = characters("<tool_call>{}\":, /abcdefghijklmnopqrstuvwxyz\n");
  EXPECT_THROW(Constraint::create(grammar("required"), trie_of(letters)), ConstraintError);
  // Any text but a call, which needs a digit.
  const auto automatic = Constraint::create(grammar("auto"), trie_of(letters));
  Constraint::Cursor cursor = automatic->start();
  const std::string call = "ab <tool_call";
  for (const char c : call) {
    const auto id = static_cast<int32_t>(std::ranges::find(letters, std::string(1, c)) - letters.begin());
    cursor.push(id);
  }
  const auto end = static_cast<int32_t>(std::ranges::find(letters, ">") - letters.begin());
  EXPECT_FALSE(cursor.allowed()->allows(end));
  EXPECT_TRUE(cursor.is_complete());
}

/// A vocabulary that lacks some characters, has others only inside longer tokens, and splits some.
Texts random_vocabulary(Draws& draws) {
  std::set<std::string> result;
  const uint32_t lacks = 2 + draws.below(20);  // one of so many characters
  for (char c = ' '; c < 127; ++c) {
    const bool is_needed = std::string("{}[]\":,").find(c) != std::string::npos;
    if ((is_needed && draws.below(4) > 0) || draws.below(lacks) > 0) result.insert(std::string(1, c));
  }
  for (const char* one : {"天", "今", "é", "Ã", "婩", "\n", "\xe5\xa4", "\xa9", "\xf0\x9f\x98\x80"}) {
    if (draws.below(2) > 0) result.insert(one);
  }
  for (const char* one :
       {"{\"", "\":", "\": ", "true",  "false", "null", "ue",  "tr",   "天\\\"\":", "],", "12", "23", "ab",
        "bc",  "cab", ", \"", "\\u00", "e}",    "0a",   "x\"", "天\"", "[[",        "]]", "--", "-1", "n"}) {
    if (draws.below(2) > 0) result.insert(one);
  }
  return {result.begin(), result.end()};
}

/// Splits a text into tokens in a random way; nothing if that is not possible.
std::vector<int32_t> random_split(const std::string& text, const Texts& tokens, Draws& draws) {
  std::vector<bool> finishes(text.size() + 1);
  finishes[text.size()] = true;
  const auto fits = [&](size_t from, const std::string& token) {
    return text.compare(from, token.size(), token) == 0 && finishes[from + token.size()];
  };
  for (size_t from = text.size(); from-- > 0;) {
    finishes[from] = std::ranges::any_of(tokens, [&](const std::string& token) { return fits(from, token); });
  }
  std::vector<int32_t> result;
  for (size_t from = 0; from < text.size() && finishes[0];) {
    std::vector<int32_t> possible;
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (fits(from, tokens[id])) possible.push_back(static_cast<int32_t>(id));
    }
    result.push_back(possible[draws.below(possible.size())]);
    from += tokens[static_cast<size_t>(result.back())].size();
  }
  return result;
}

/// Writes random tokens of a constraint until the text is complete.
std::string random_writing(const Constraint& constraint, const Texts& tokens, Draws& draws) {
  Constraint::Cursor cursor = constraint.start();
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    if (cursor.is_final() || (cursor.is_complete() && draws.below(3) == 0)) return text;
    const std::vector<int32_t> allowed = allowed_by(cursor, tokens.size());
    EXPECT_TRUE(!allowed.empty() || cursor.is_complete()) << "a dead end after " << text;
    if (allowed.empty()) return text;
    int32_t id = allowed[draws.below(allowed.size())];
    for (const int32_t one : allowed) {
      const bool closes = std::string("x\"]}天10n").find(tokens[static_cast<size_t>(one)][0]) != std::string::npos;
      if (closes && i > 30 && draws.below(3) == 0) id = one;
    }
    cursor.push(id);
    text += tokens[static_cast<size_t>(id)];
  }
  return text.substr(0, 0);  // did not end
}

TEST(Restriction, RandomSchemasAndVocabulariesHaveNoDeadEnds) {
  int written = 0, refused = 0, kept = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const Json schema = testing::random_schema(draws, 1);
    const Grammar grammar = json_schema_grammar(schema);
    const Texts tokens = random_vocabulary(draws);
    std::shared_ptr<const Constraint> constraint;
    try {
      constraint = Constraint::create(grammar, trie_of(tokens));
    } catch (const ConstraintError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("it has no token for"), std::string::npos) << error.what();
    }
    const testing::Validator validator(schema);
    for (int i = 0; constraint && i < 4; ++i) {
      const std::string text = random_writing(*constraint, tokens, draws);
      if (text.empty()) continue;
      ++written;
      EXPECT_TRUE(grammar.matches(text)) << schema.dump() << " " << text;
      EXPECT_TRUE(validator.accepts(Json::parse(text))) << schema.dump() << " " << text;
    }
    // Nothing that can be written is lost, however it is split into tokens.
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string text = testing::random_text(grammar, seed * 100 + i, 8);
      const std::vector<int32_t> split = random_split(text, tokens, draws);
      if (split.empty()) continue;
      ++kept;
      ASSERT_TRUE(constraint) << schema.dump() << " " << text;
      Constraint::Cursor cursor = constraint->start();
      for (const int32_t id : split) {
        ASSERT_TRUE(cursor.allowed()->allows(id)) << text;
        cursor.push(id);
      }
      EXPECT_TRUE(cursor.is_complete()) << text;
    }
  }
  EXPECT_GT(written, 400);
  EXPECT_GT(refused, 20);
  EXPECT_GT(kept, 400);
}

TEST(Restriction, AFormatThatIsTooLargeForTheVocabularyKeepsItsBytes) {
  // Words without their letters: each string could end inside any of them.
  Texts words = characters("{}[]\":,");
  Draws draws(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string word;
    for (uint32_t size = 3 + draws.below(9); size > 0; --size) word += static_cast<char>('a' + draws.below(25));
    words.push_back(word);
  }
  const auto trie = trie_of(words);
  const auto constraint = Constraint::create(
      json_schema_grammar(Json::parse(R"({"anyOf":[{"type":"string","maxLength":900},{"const":"az"},{"const":1}]})")),
      trie);
  EXPECT_EQ(allowed_by(constraint->start(), words.size()).size(), 1U);
  EXPECT_THROW(constraint_of(R"({"const":"az"})", words), ConstraintError);
}

TEST(ExampleText, PrefersKnownBytes) {
  const auto example = [](const char* schema, const char* known) {
    grammar::ByteSet bytes;
    for (const char* c = known; *c != 0; ++c) bytes.set(static_cast<uint8_t>(*c));
    return grammar::example_text(*json_schema_grammar(Json::parse(schema)).rules(), bytes);
  };
  EXPECT_EQ(example(R"({"enum":["x","long"]})", "\"long"), "\"long\"");
  EXPECT_EQ(example(R"({"enum":["x","long"]})", "\"longx"), "\"x\"");
  EXPECT_EQ(example(R"({"enum":["xx","long"]})", "\"on"), "\"xx\"");
  EXPECT_EQ(example(R"({"const":")"
                    "aaaaaaaaaa\"}",
                    ""),
            "\"aaaaaaaaaa\"");
}

}  // namespace
}  // namespace attend
