#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using testing::ProcessOptions;
using testing::TemporaryFolder;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

Finished tokenize(Words words, const ProcessOptions& options = {}) {
  words.insert(words.begin(), {ATTEND_BINARY_DIR "/attend", "tokenize"});
  return testing::run(words, options);
}

/// A tokenizer trained through the command, on a small corpus.
class Tokenize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream out(corpus_);
    for (int i = 0; i < 50; ++i) out << "the cat sat on the mat\n今天天气很好\n";
    out.close();
    const Finished result = tokenize({"--train", corpus_, "--kind", "bpe", "--vocabulary", "300", "-o", model_});
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_TRUE(result.out.starts_with(model_ + ": ")) << result.out;
  }

  const TemporaryFolder folder_;
  const std::string corpus_ = folder_.file("corpus.txt"), model_ = folder_.file("model");
};

TEST_F(Tokenize, TokensIdsAndBack) {
  EXPECT_EQ(tokenize({model_, "the cat"}).out, "the Ġcat\n");
  EXPECT_EQ(tokenize({model_, "今天天气很好\n"}).out, "今天天气很好 Ċ\n") << "readable, although spelt as bytes";
  EXPECT_EQ(tokenize({model_, "the cat", "--special"}).out, "<s> the Ġcat </s>\n");
  EXPECT_EQ(tokenize({model_, "the cat", "the"}).out, "the Ġcat\nthe\n") << "each text on its own";
  const std::string ids = tokenize({model_, "今天 ☃ the\tcat", "--ids"}).out;
  EXPECT_EQ(tokenize({model_, "--decode"}, {.input = ids}).out, "今天 ☃ the\tcat\n");
  EXPECT_EQ(tokenize({model_, "--decode", "2", "3"}).out, "\n");
  EXPECT_EQ(tokenize({model_, "--decode", "--special", "2", "3"}).out, "<s></s>\n");
}

TEST_F(Tokenize, LinesOfStandardInput) {
  EXPECT_EQ(tokenize({model_}, {.input = "the\n\nthe cat\n"}).out, "the\n\nthe Ġcat\n");
  const Finished result = tokenize({model_}, {.input = "ok\nab\xff\n"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "attend: stdin:2: not UTF-8\n");
  EXPECT_EQ(tokenize({model_, "--lossy"}, {.input = "\xff\n"}).code, 0);
}

TEST_F(Tokenize, Json) {
  const Finished result = tokenize({model_, "the cat", "今天", "--json"});
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  const Json first = Json::parse(line);
  EXPECT_EQ(first["text"], "the cat");
  EXPECT_EQ(first["tokens"], (Words{"the", "Ġcat"}));
  EXPECT_EQ(first["ids"].size(), 2u);
  std::getline(lines, line);
  EXPECT_EQ(Json::parse(line)["text"], "今天");
  const std::string id = std::to_string(first["ids"][0].get<int>());
  EXPECT_EQ(Json::parse(tokenize({model_, "--decode", "--json", id}).out)["text"], "the");
}

TEST_F(Tokenize, Bench) {
  const Json report = Json::parse(tokenize({model_, "--bench", corpus_, "--json"}).out);
  EXPECT_GT(report["mb_per_second"], 0);
  EXPECT_EQ(report["bytes"], 50 * (23 + 19));
  EXPECT_NE(tokenize({model_, "--bench", corpus_}).out.find(" MB/s"), std::string::npos);
}

TEST_F(Tokenize, EveryKindTrains) {
  for (const std::string kind : {"char", "word", "bpe", "wordpiece", "sentencepiece"}) {
    const std::string folder = folder_.file(kind);
    const Finished result = tokenize(
        {"--train", corpus_, "--kind", kind, "--vocabulary", "320", "--min-count", "1", "-o", folder, "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "") << kind;
    const Json report = Json::parse(result.out);
    EXPECT_EQ(report["kind"], kind);
    EXPECT_LE(report["vocabulary"], 320);
    const std::string ids = tokenize({folder, "the cat sat", "--ids"}).out;
    EXPECT_EQ(tokenize({folder, "--decode"}, {.input = ids}).out, "the cat sat\n") << kind;
  }
}

TEST_F(Tokenize, ErrorsAreOneLine) {
  const std::vector<std::tuple<Words, int, std::string>> mistakes{
      {{}, 2, "expected a tokenizer, a model folder, or --train FILE; see attend tokenize --help"},
      {{folder_.file("absent"), "x"}, 1, folder_.file("absent") + ": no such file or folder"},
      {{corpus_, "x"}, 1, corpus_ + ": the unknown token '[UNK]' is not in the vocabulary"},
      {{model_, "a\xff"}, 1, "text: expected UTF-8, got an invalid sequence at byte 1"},
      {{model_, "--decode", "12", "x"}, 1, "tokenize: expected token ids, got 'x'"},
      {{model_, "--decode", "1000"}, 1, "tokenizer: expected an id from 0 to "},
      {{"--train", corpus_}, 2, "--train requires -o FOLDER for the trained tokenizer; see attend tokenize --help"},
      {{"--train", corpus_, "--kind", "x", "-o", model_},
       2,
       "--kind: expected char, word, bpe, wordpiece or sentencepiece, got 'x'; see attend tokenize --help"},
      {{"--train", folder_.file("absent"), "-o", model_}, 1, folder_.file("absent") + ": "},
      {{"--train", corpus_, "--vocabulary", "100", "-o", folder_.file("none")},
       1,
       "tokenizer: bpe needs a vocabulary of at least 261 tokens (256 bytes and 5 special tokens), got 100"},
      {{"--train", corpus_, "--kind", "sentencepiece", "--vocabulary", "100", "-o", folder_.file("none")},
       1,
       "tokenizer: sentencepiece needs a vocabulary of at least 276 tokens for this corpus (its characters, 256 bytes "
       "and the special tokens), got 100\n"},
  };
  for (const auto& [words, code, message] : mistakes) {
    const Finished result = tokenize(words);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_TRUE(result.err.starts_with("attend: " + message)) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_NE(tokenize({"--help"}).out.find("attend tokenize tokenizer \"今天天气很好\""), std::string::npos);
}

}  // namespace
}  // namespace attend
