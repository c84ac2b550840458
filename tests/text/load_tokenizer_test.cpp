// Tokenizer files: which are read, which neighbouring files matter, and errors for damaged ones.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "attend/text/tokenizer.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"
#include "text/random_text.h"
#include "text/tokenizers/text_work.h"
#include "text/unicode.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;
using testing::expect_error;
using testing::TemporaryFolder;

const std::string kShared = ATTEND_SOURCE_DIR "/../shared";

void write(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

/// The error of load_tokenizer for a tokenizer.json.
std::string complaint(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokenizer.json");
  write(path, content);
  try {
    load_tokenizer(folder.path());
    return "";
  } catch (const FormatError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with(path + ": ")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
    return what.substr(std::min(what.size(), path.size() + 2));
  }
}

Json document() {
  return {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"<s>", 1}, {"</s>", 2}}}, {"merges", Json::array()}}}};
}

TEST(LoadTokenizer, NamesUnknownComponents) {
  EXPECT_EQ(complaint(document().dump()), "");
  const std::vector<std::pair<const char*, const char*>> parts{{"normalizer", "unknown normalizer 'Magic'"},
                                                               {"pre_tokenizer", "unknown pre-tokenizer 'Magic'"},
                                                               {"post_processor", "unknown post-processor 'Magic'"},
                                                               {"decoder", "unknown decoder 'Magic'"},
                                                               {"model", "unknown model 'Magic'"}};
  for (const auto& [key, message] : parts) {
    Json json = document();
    json[key] = {{"type", "Magic"}};
    EXPECT_EQ(complaint(json.dump()), message);
  }
}

TEST(LoadTokenizer, DamageIsOneLine) {
  EXPECT_EQ(complaint(""), "not valid JSON at byte 1");
  EXPECT_EQ(complaint("{\"model\": "), "not valid JSON at byte 11");
  EXPECT_EQ(complaint("[]"), "expected a JSON object, got array");
  EXPECT_EQ(complaint("{}"), "\"model\" is missing");
  EXPECT_EQ(complaint(std::string(100'000, '[')), "JSON nested deeper than 32 at byte 32");
  EXPECT_EQ(complaint(R"({"model": {"type": "BPE", "vocab": [], "merges": []}})"),
            "\"vocab\" must be an object, got array");
  EXPECT_EQ(complaint(R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "fuse_unk": 3}})"),
            "\"fuse_unk\" must be true or false, got number");
  Json json = document();
  json["added_tokens"] = {{{"id", -1}, {"content", "x"}}};
  EXPECT_EQ(complaint(json.dump()), "the id of the added token 'x' must be from 0 to 3999999, got -1");
  json = document();
  json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"x", 7}}, {"cls", {"x", 0}}};
  EXPECT_EQ(complaint(json.dump()), "the template adds token id 7, but there are only 3 tokens");
  json = document();
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  EXPECT_EQ(complaint(json.dump()), "cannot compile the regular expression '(a': U_REGEX_MISMATCHED_PAREN");
}

TEST(LoadTokenizer, AbsurdSizesAreRefused) {
  Json json = document();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(1000, {{"type", "NFC"}})}};
  EXPECT_EQ(complaint(json.dump()), "expected at most 128 components, got 1001");
  // Forty steps that double the text would turn one letter into a tebibyte.
  const Json doubling{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(40, doubling)}};
  const TemporaryFolder folder;
  write(folder.file("tokenizer.json"), json.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  expect_error<FormatError>(
      [&] { tokenizer->encode("a"); },
      "tokenizer: its normalizer expands a text of 1 bytes to 131072; its rules are damaged or hostile");
}

TEST(LoadTokenizer, ADecoderThatDoublesTheTextIsRefused) {
  Json json = document();
  const Json doubling{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json["decoder"] = {{"type", "Sequence"}, {"decoders", Json(40, doubling)}};
  const TemporaryFolder folder;
  write(folder.file("tokenizer.json"), json.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  expect_error<FormatError>(
      [&] { tokenizer->decode(std::vector<int32_t>{0}); },
      "tokenizer: its decoder expands a text of 1 bytes to 131072; its rules are damaged or hostile");
}

TEST(LoadTokenizer, APreTokenizerThatDoublesTheTextIsRefused) {
  const TemporaryFolder folder;
  const auto encode = [&](const Json& step, const char* text) {
    Json json = document();
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json(40, step)}};
    write(folder.file("tokenizer.json"), json.dump());
    load_tokenizer(folder.path())->encode(text);
  };
  const Json blanks{{"type", "Metaspace"}, {"replacement", "  "}, {"prepend_scheme", "never"}, {"split", false}};
  expect_error<FormatError>(
      [&] { encode(blanks, "a a"); },
      "tokenizer: its pre-tokenizer expands a text of 3 bytes to 131074; its rules are damaged or hostile");
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  expect_error<FormatError>(
      [&] { encode(bytes, "é"); },
      "tokenizer: its pre-tokenizer expands a text of 2 bytes to 131072; its rules are damaged or hostile");
  const Json longer{{"type", "Metaspace"}, {"replacement", std::string(257, 'x')}};
  expect_error<FormatError>(
      [&] { encode(longer, "a"); },
      folder.file("tokenizer.json") + ": the replacement of Metaspace has 257 bytes, expected at most 256");
}

TEST(LoadTokenizer, AnAddedTokenStaysShortWhenItIsNormalized) {
  Json json = document();
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", std::string(256, 'b')}};
  json["added_tokens"] = {{{"id", 3}, {"content", std::string(17, 'b')}, {"normalized", true}}};
  EXPECT_EQ(complaint(json.dump()),
            "the normalizer expands the added token 'bbbbbbbbbbbbbbbbb' to 4352 bytes, expected at most 4096");
}

TEST(LoadTokenizer, WorkIsLimitedForTheWholeText) {
  // Each word alone stays within the limit.
  Json json = document();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "WhitespaceSplit"}},
                             {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+$b"}}}, {"behavior", "Isolated"}}}}};
  const TemporaryFolder folder;
  write(folder.file("tokenizer.json"), json.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  const std::string word = std::string(18, 'a') + "c ";
  EXPECT_NO_THROW(tokenizer->encode(word));
  std::string text;
  for (int i = 0; i < 60; ++i) text += word;
  expect_error<FormatError>(
      [&] { tokenizer->encode(text); },
      "tokenizer: the regular expression '(a+)+$b' takes too many steps for a text of 1200 bytes");
}

TEST(TextWork, ShortSearchesCountToo) {
  text::TextWork work(1000);
  int searches = 0;
  while (work.start_search()) ++searches;
  EXPECT_GT(searches, 4000) << "several expressions for each character are fine";
  EXPECT_LT(searches, 100'000);
}

TEST(TextWork, AllStepsTogetherAreLimited) {
  text::TextWork work(10);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) work.wrote("normalizer", 60'000);
      },
      FormatError);
}

TEST(LoadTokenizer, AHostileExpressionDoesNotHang) {
  Json json = document();
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+$b"}}}, {"behavior", "Isolated"}};
  const TemporaryFolder folder;
  write(folder.file("tokenizer.json"), json.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  expect_error<FormatError>([&] { tokenizer->encode(std::string(60, 'a') + "c"); },
                            "tokenizer: the regular expression '(a+)+$b' takes too many steps for a text of 61 bytes");
}

TEST(LoadTokenizer, MissingFiles) {
  const TemporaryFolder folder;
  expect_error<FormatError>([&] { load_tokenizer(folder.file("absent")); },
                            folder.file("absent") + ": no such file or folder");
  expect_error<FormatError>(
      [&] { load_tokenizer(folder.path()); },
      folder.path() + ": expected a tokenizer: tokenizer.json, tokenizer.model, spiece.model, vocab.json or vocab.txt");
}

TEST(LoadTokenizer, SpecialTokensFromNeighbouringFiles) {
  const TemporaryFolder folder;
  write(folder.file("tokenizer.json"), document().dump());
  EXPECT_EQ(load_tokenizer(folder.path())->special().begin, 1) << "by a name in common use";
  write(folder.file("special_tokens_map.json"), R"({"pad_token": {"content": "a"}})");
  EXPECT_EQ(load_tokenizer(folder.path())->special().pad, 0);
  write(folder.file("tokenizer_config.json"), R"({"bos_token": "</s>", "eos_token": null, "pad_token": "none"})");
  const SpecialTokens special = load_tokenizer(folder.file("tokenizer.json"))->special();
  EXPECT_EQ(special.begin, 2);
  EXPECT_EQ(special.end, 2);
  EXPECT_EQ(special.pad, 0) << "the first that names a token that exists";
  EXPECT_EQ(special.unknown, -1);
  EXPECT_EQ(special.mask, -1);
  write(folder.file("tokenizer_config.json"), "{");
  expect_error<FormatError>([&] { load_tokenizer(folder.path()); },
                            folder.file("tokenizer_config.json") + ": not valid JSON at byte 2");
}

TEST(LoadTokenizer, SaveWritesWhatWasRead) {
  const TemporaryFolder from, to;
  write(from.file("tokenizer.json"), document().dump());
  write(from.file("tokenizer_config.json"), R"({"bos_token": "a"})");
  load_tokenizer(from.path())->save(to.path());
  const auto again = load_tokenizer(to.path());
  EXPECT_EQ(again->encode("aa"), (Ids{0, 0}));
  EXPECT_EQ(again->special().begin, 0);
}

/// Two tokenizers of the same vocabulary must agree on any text.
void expect_same(const Tokenizer& a, const Tokenizer& b) {
  testing::RandomText random(3);
  ASSERT_EQ(a.size(), b.size());
  for (int i = 0; i < 500; ++i) {
    const std::string text = random.text(random.below(30));
    const Ids ids = a.encode(text, true);
    ASSERT_EQ(ids, b.encode(text, true)) << text;
    ASSERT_EQ(a.decode(ids), b.decode(ids)) << text;
  }
}

TEST(LoadTokenizer, OlderFileFormatsGiveTheSameTokenizer) {
  const std::string gpt2 = kShared + "/data/tokenizers/gpt2", bert = kShared + "/data/tokenizers/bert-base-uncased";
  if (!fs::exists(gpt2) || !fs::exists(bert)) GTEST_SKIP() << "no " << kShared << "/data/tokenizers";
  expect_same(*load_tokenizer(gpt2), *load_tokenizer(gpt2 + "/vocab.json"));
  expect_same(*load_tokenizer(bert), *load_tokenizer(bert + "/vocab.txt"));
}

/// A small vocabulary of the repository, and large ones if they are available.
TEST(LoadTokenizer, ByteLevelRoundTripsAnyText) {
  for (const std::string& folder : {std::string(ATTEND_SOURCE_DIR "/tests/golden/cases/tokenizers/gpt2"),
                                    kShared + "/data/tokenizers/gpt2", kShared + "/data/tokenizers/qwen2.5"}) {
    if (folder.starts_with(kShared) && !fs::exists(folder)) continue;
    const auto tokenizer = load_tokenizer(folder);
    testing::RandomText random(5);
    for (int i = 0; i < 500; ++i) {
      const std::string text = random.text(random.below(40));
      const std::string expected = folder.ends_with("gpt2") ? text : text::normalized(text, text::NormalForm::nfc);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text), true), expected) << folder;
    }
  }
}

TEST(LoadTokenizer, ManyThreadsMayEncodeAtOnce) {
  const TemporaryFolder folder;
  Json json = document();
  json["pre_tokenizer"] = {{"type", "Whitespace"}};
  json["model"]["vocab"]["aa"] = 3;
  json["model"]["merges"] = {"a a"};
  write(folder.file("tokenizer.json"), json.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::string(static_cast<size_t>(i % 70), 'a') + " ";
  const Ids expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { same += tokenizer->encode(text) == expected; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 4);
}

}  // namespace
}  // namespace attend
