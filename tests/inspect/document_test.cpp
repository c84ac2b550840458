#include "attend/inspect/document.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "attend/generate/generate_text.h"
#include "attend/generate/translate.h"
#include "attend/inspect/arrays.h"
#include "attend/inspect/generation.h"
#include "attend/io/files.h"
#include "inspect/inspect_testing.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines_of(const InspectedModel& model, const GenerationOptions& options) {
  std::vector<Json> lines;
  generate_steps(*model.model, *model.tokenizer, options, [&](const std::string& line) {
    lines.push_back(Json::parse(line));
    return true;
  });
  return lines;
}

/// A tokenizer trained on a few lines.
std::shared_ptr<const Tokenizer> trained(TokenizerKind kind) {
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i) lines.push_back("the cat sat on the mat 今天天气很好 unaffable days");
  size_t next = 0;
  return train_tokenizer(
      [&]() -> std::optional<std::string> { return next < lines.size() ? std::optional(lines[next++]) : std::nullopt; },
      {.kind = kind, .vocabulary = 300});
}

TEST(ShownTokens, CoverTheTextInOrder) {
  const std::string text = "the cat sat, 今天天气很好 ⻥ days";
  for (const TokenizerKind kind : {TokenizerKind::characters, TokenizerKind::words, TokenizerKind::bpe,
                                   TokenizerKind::wordpiece, TokenizerKind::sentencepiece}) {
    const auto tokenizer = trained(kind);
    const auto tokens = show_tokens(*tokenizer, tokenizer->encode(text), text);
    int64_t end = 0, last_word = -1;
    for (const ShownToken& token : tokens) {
      EXPECT_GE(token.end, token.start);
      EXPECT_GE(token.end, end) << static_cast<int>(kind);
      end = token.end;
      const std::string place =
          text.substr(static_cast<size_t>(token.start), static_cast<size_t>(token.end - token.start));
      const bool is_placed = token.end > token.start;  // SentencePiece adds a space before the text
      if (is_placed && token.kind == TokenKind::text) {
        EXPECT_EQ(token.text, place) << static_cast<int>(kind);
      }
      for (const char* mark : {"\u2581", "\u0120", "##"}) EXPECT_EQ(token.text.find(mark), std::string::npos);
      if (token.text != " " && token.end > token.start) {
        EXPECT_GE(token.word, last_word) << token.text;
        last_word = token.word;
      }
    }
    EXPECT_EQ(end, std::ssize(text)) << static_cast<int>(kind);
    EXPECT_EQ(last_word, 10) << static_cast<int>(kind);  // three words, six characters, one rare one, one word
  }
}

TEST(ShownTokens, BytesOfACharacterShareItsRange) {
  const auto tokenizer = trained(TokenizerKind::bpe);
  const std::string text = "a ⻥";
  const auto tokens = show_tokens(*tokenizer, tokenizer->encode(text), text);
  ASSERT_GE(tokens.size(), 3u);
  int bytes = 0;
  for (const ShownToken& token : tokens) {
    if (token.kind != TokenKind::byte) continue;
    ++bytes;
    EXPECT_EQ(token.start, 2);
    EXPECT_EQ(token.end, 5);
    EXPECT_EQ(token.word, 1);
    EXPECT_EQ(token.text.size() % 2, 0u);
  }
  EXPECT_GE(bytes, 2);
}

TEST(ShownTokens, SpecialTokensAreNamed) {
  const auto tokenizer = trained(TokenizerKind::words);
  const auto tokens =
      show_tokens(*tokenizer, std::vector<int32_t>{2, *tokenizer->find("cat"), 1, 3, 9999}, "cat zebra");
  EXPECT_EQ(tokens[0].text, "<s>");
  EXPECT_EQ(tokens[0].kind, TokenKind::special);
  EXPECT_EQ(tokens[0].word, -1);
  EXPECT_EQ(tokens[1].text, "cat");
  EXPECT_EQ(tokens[2].start, 4);  // an unknown token has the range of its text
  EXPECT_EQ(tokens[2].end, 9);
  EXPECT_EQ(tokens[3].start, tokens[3].end);
  EXPECT_EQ(tokens[4].text, "#9999");
}

std::shared_ptr<const Tokenizer> tokenizer_of(const std::string& json) {
  const TemporaryFolder folder;
  write_file(folder.file("tokenizer.json"), json);
  return load_tokenizer(folder.path());
}

/// The text of each token's range, "-" where the range is empty.
std::string places_of(const std::vector<ShownToken>& tokens, const std::string& text) {
  std::string places;
  for (const ShownToken& token : tokens) {
    const auto size = static_cast<size_t>(token.end - token.start);
    places += (places.empty() ? "" : "|") + (size > 0 ? text.substr(static_cast<size_t>(token.start), size) : "-");
  }
  return places;
}

/// Byte pieces, a space before the text and <s>, as in Llama's vocabularies.
std::shared_ptr<const Tokenizer> llama_like() {
  const char* json = R"({"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "merges": [], "vocab": {
    "<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "<0xF0>": 4, "<0x9F>": 5, "<0x8E>": 6, "<0x89>": 7, "\u2581": 8,
    "Z": 9, "e": 10, "b": 11, "r": 12, "a": 13, "u": 14, "n": 15, "s": 16, "t": 17, "o": 18}},
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
                     {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})";
  return tokenizer_of(json);
}

TEST(ShownTokens, SpecialTokensAndTheAddedSpaceDoNotMoveTheText) {
  const auto tokenizer = llama_like();
  const std::string text = "Zebra runs to Zoe";
  std::vector<int32_t> ids = tokenizer->encode(text);
  ids.insert(ids.begin(), 1);
  const auto tokens = show_tokens(*tokenizer, ids, text);
  EXPECT_EQ(places_of(tokens, text), "-|-|Z|e|b|r|a| |r|u|n|s| |t|o| |Z|o|e");
  EXPECT_EQ(tokens[2].word, 0);
  EXPECT_EQ(tokens.back().word, 3);
}

TEST(ShownTokens, BytesThatAreCharactersAreText) {
  const auto tokenizer = llama_like();
  const std::string text = "a\n🎉";
  const auto tokens = show_tokens(*tokenizer, tokenizer->encode(text), text);
  ASSERT_EQ(tokens.size(), 7u);
  EXPECT_EQ(tokens[2].text, "\n");
  EXPECT_EQ(tokens[2].kind, TokenKind::text);
  EXPECT_EQ(tokens[3].text, "F0");
  EXPECT_EQ(places_of(tokens, text), "-|a|\n|🎉|🎉|🎉|🎉");
}

TEST(ShownTokens, ContinuationsLoseTheirMark) {
  const auto tokenizer = tokenizer_of(R"({"model": {"type": "WordPiece", "unk_token": "[UNK]",
    "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "un": 1, "##aff": 2,
    "##able": 3, "it": 4, "##s": 5}}, "normalizer": {"type": "BertNormalizer", "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"}})");
  const std::string text = "Unaffable its";
  const auto tokens = show_tokens(*tokenizer, tokenizer->encode(text), text);
  std::string shown;
  for (const ShownToken& token : tokens) shown += token.text + std::to_string(token.word) + (token.space ? "_ " : " ");
  EXPECT_EQ(shown, "un0 aff0 able0 it1_ s1 ");
  EXPECT_EQ(show_token(*tokenizer, 3).text, "able");
}

TEST(Generation, GivesTheTextOfTranslate) {
  for (const char* architecture : {"transformer", "rnn-attention", "rnn"}) {
    InspectedModel model = tiny_inspected(architecture);
    const auto& pair = dynamic_cast<const PairModel&>(*model.model);
    for (const int64_t beam : {1, 3}) {
      const std::string text = "hello";
      const auto lines = lines_of(model, {.text = text, .beam = beam, .length = 12});
      const TranslatedLine expected =
          translate(pair, *model.tokenizer, std::vector{text}, {.beam = beam, .max_length = 12})[0];
      EXPECT_EQ(lines.back()["text"], expected.best[0].text) << architecture << " " << beam;
      EXPECT_TRUE(lines.back()["done"]);
      EXPECT_EQ(lines[0]["sides"][0]["name"], "source");
    }
  }
}

TEST(Generation, FollowsTheFoldersRulesLikeTranslate) {
  const InspectedModel model = tiny_inspected("transformer");
  const auto& pair = dynamic_cast<const PairModel&>(*model.model);
  const GenerationRules rules{.as_transformers = true,
                              .ends = {3},
                              .banned = {0, 1, 2, 3, 4},
                              .beam = 3,
                              .max_length = 9,
                              .no_repeat = 2,
                              .repetition_penalty = 1.3,
                              .renormalizes = true,
                              .prefix = "to: ",
                              .length_penalty = 0.7};
  const TranslatedLine expected =
      translate(pair, *model.tokenizer, std::vector<std::string>{"hello"}, search_by(rules))[0];
  ASSERT_EQ(expected.best[0].text.size(), 8u);
  const auto lines = lines_of(model, {.text = "hello", .beam = 3, .rules = rules});
  EXPECT_EQ(lines.back()["text"], expected.best[0].text);
  EXPECT_EQ(lines[0]["sides"][0]["text"], "to: hello");
  const attend::Run run = capture(*model.model, *model.tokenizer, {.text = "hello", .rules = rules});
  EXPECT_EQ(run.sides[0].text, "to: hello");
  EXPECT_EQ(run.sides[1].text, expected.best[0].text);
}

TEST(Generation, ReportsCandidatesAndAttention) {
  const auto lines = lines_of(tiny_inspected("transformer"), {.text = "abcd", .beam = 3, .length = 6, .candidates = 4});
  std::map<int64_t, Json> nodes;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i - 1);
    for (const Json& node : lines[i]["nodes"]) {
      nodes[node["id"]] = node;
      EXPECT_TRUE(node["parent"] == 0 || nodes.contains(node["parent"]));
      EXPECT_EQ(node["candidates"].size(), 4u);
      const double before = node["parent"] == 0 ? 0.0 : nodes[node["parent"]]["logp"].get<double>();
      EXPECT_NEAR(node["logp"].get<double>(), before + std::log(node["p"].get<double>()), 1e-4);
      ASSERT_FALSE(node["looked"].empty());
      for (const Json& looked : node["looked"]) {
        double sum = 0;
        for (const Json& weight : looked["weights"]) sum += weight.get<double>();
        EXPECT_NEAR(sum, 1, 1e-4);
        const Json& attention = lines[0]["attention"][looked["attention"].get<size_t>()];
        EXPECT_EQ(attention["querySide"], 1);
        EXPECT_FALSE(attention.contains("queries"));
        // Keys: the source and its end token, or the begin token and all tokens generated before.
        EXPECT_EQ(looked["weights"].size(), attention["kind"] == "cross" ? 5u : i);
      }
    }
  }
  EXPECT_GT(nodes.size(), 6u);
}

TEST(Generation, ContinuesAPromptAndSamplesBySeed) {
  const InspectedModel model = tiny_inspected("gpt");
  const auto& language = dynamic_cast<const LanguageModel&>(*model.model);
  const std::string expected = generate_text(language, *model.tokenizer, std::string("hello"),
                                             {.tokens = 8, .sampling = {.temperature = 0}, .goes_past_end = false});
  EXPECT_EQ(lines_of(model, {.text = "hello", .length = 8}).back()["text"], expected);
  const auto drawn = [&](uint64_t seed) {
    return lines_of(model, {.text = "hello", .length = 20, .temperature = 1.5, .seed = seed}).back()["text"];
  };
  EXPECT_EQ(drawn(3), drawn(3));
  EXPECT_NE(drawn(3), drawn(4));
  EXPECT_EQ(lines_of(model, {.text = std::string(64, 'x'), .length = 8}).back()["text"], "");  // the context is full
}

TEST(Generation, RefusesInvalidOptions) {
  const InspectedModel model = tiny_inspected("gpt"), encoder = tiny_inspected("encoder");
  expect_error<ShapeError>([&] { lines_of(model, {.beam = 9}); }, "generate: beam must be from 1 to 8, got 9");
  expect_error<ShapeError>([&] { lines_of(model, {.length = 0}); }, "generate: length must be from 1 to 256, got 0");
  expect_error<ShapeError>([&] { lines_of(model, {.candidates = 99}); },
                           "generate: candidates must be from 1 to 50, got 99");
  expect_error<ShapeError>([&] { lines_of(model, {.beam = 2, .temperature = 1}); },
                           "generate: temperature requires a beam of 1, got 2");
  expect_error<ShapeError>([&] { lines_of(encoder, {.text = "a"}); },
                           "generate: architecture encoder does not generate text");
}

TEST(Document, HasTheNumbersOfTheRunExactly) {
  for (const char* architecture : {"transformer", "rnn-attention", "gpt", "encoder"}) {
    const InspectedModel model = tiny_inspected(architecture);
    const attend::Run run = tiny_run(model, {.text = "hello <b>&\"x\""});
    const Json json = Json::parse(inspect_document(model, run, {.version = "1", .training = R"({"steps":[]})"}));
    EXPECT_EQ(json["format"], "attend-inspect");
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["run"]["sides"][0]["text"], "hello <b>&\"x\"");
    EXPECT_EQ(json["info"]["models"][0]["architecture"], architecture);
    EXPECT_EQ(json["heads"]["heads"].size(), json["stats"].size());
    EXPECT_EQ(json.contains("alignment"), model.model->kind() == ModelKind::translation);
    EXPECT_EQ(json.contains("generation"), model.model->kind() != ModelKind::classification);
    EXPECT_TRUE(json["leftOut"].empty());
    for (const std::string& name : array_names(run)) {
      const Array array = run_array(run, name);
      const Json flat = json["arrays"][name]["values"].flatten();
      ASSERT_EQ(flat.size(), array.values.size()) << name;
      const Json* values = &json["arrays"][name]["values"];
      const Json& first = array.shape.rank() == 1   ? (*values)[0]
                          : array.shape.rank() == 2 ? (*values)[0][0]
                                                    : (*values)[0][0][0];
      if (std::isfinite(array.values[0])) {
        EXPECT_EQ(first.get<float>(), array.values[0]) << name;
      }
    }
  }
}

TEST(Document, PackedNumbersAreBase64) {
  const InspectedModel model = tiny_inspected("gpt");
  const attend::Run run = tiny_run(model, {.text = "abc"});
  const Json json = Json::parse(inspect_document(model, run, {.packed = true}));
  const std::string data = json["arrays"]["weights/0/0"]["data"];
  EXPECT_EQ(data.size(), 48u);             // 9 floats: 36 bytes
  EXPECT_EQ(data.substr(0, 6), "AACAPw");  // 1.0: the first token sees itself only
  EXPECT_EQ(json["arrays"]["weights/0/0"]["shape"], Json::parse("[3,3]"));
}

TEST(Document, ListsArraysThatAreTooLarge) {
  const InspectedModel model = tiny_inspected("gpt");
  const attend::Run run = tiny_run(model, {.text = "abcdefgh"});
  const Json json = Json::parse(inspect_document(model, run, {.most_values = 100}));
  EXPECT_TRUE(json["arrays"].contains("weights/0/0"));
  EXPECT_FALSE(json["arrays"].contains("weights/0/1"));
  EXPECT_EQ(json["leftOut"][0], "weights/0/1");
}

TEST(Document, DataCannotCloseTheScriptElement) {
  const std::string page =
      inspect_page("<body><!--attend-data--><script>x</script></body>", R"({"a":"</script><!--"})");
  EXPECT_EQ(page,
            "<body><script type=\"application/json\" id=\"attend-data\">{\"a\":\"\\u003c/script>\\u003c!--\"}</script>"
            "<script>x</script></body>");
  expect_error<FormatError>([] { inspect_page("<body></body>", "{}"); },
                            "inspect: the page has no placeholder for data");
}

}  // namespace
}  // namespace attend::testing
