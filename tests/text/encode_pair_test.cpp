// Two texts as one sequence, and texts in the language that is written.
#include <filesystem>

#include "attend/text/tokenizer.h"
#include "testing/gradients.h"
#include "text/json_tokenizer.h"
#include "text/trained_document.h"

namespace attend::text {
namespace {

using Ids = std::vector<int32_t>;

/// Words, numbered from 10, and the special tokens 0 … 4; the template is for the test to choose.
JsonTokenizer words(const Json& post_processor) {
  Json json = trained_document();
  json["post_processor"] = post_processor;
  json["pre_tokenizer"] = {{"type", "Whitespace"}};
  Json vocabulary{{"<pad>", 0}, {"<unk>", 1}, {"<s>", 2}, {"</s>", 3}, {"<mask>", 4}};
  for (int i = 0; i < 8; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = 10 + i;
  json["model"] = {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}};
  return {json.dump(), {trained_config(), {}, {}}};
}

TEST(EncodePair, TemplatesOfEachKind) {
  const EncodedPair bert =
      words({{"type", "BertProcessing"}, {"sep", {"</s>", 3}}, {"cls", {"<s>", 2}}}).encode_pair("a b", "c", 16);
  EXPECT_EQ(bert.ids, (Ids{2, 10, 11, 3, 12, 3}));
  EXPECT_EQ(bert.types, (Ids{0, 0, 0, 0, 1, 1}));
  EXPECT_FALSE(bert.is_cut);
  const EncodedPair roberta = words({{"type", "RobertaProcessing"},
                                     {"sep", {"</s>", 3}},
                                     {"cls", {"<s>", 2}},
                                     {"trim_offsets", true},
                                     {"add_prefix_space", false}})
                                  .encode_pair("a b", "c", 16);
  EXPECT_EQ(roberta.ids, (Ids{2, 10, 11, 3, 3, 12, 3}));
  EXPECT_EQ(roberta.types, Ids(7, 0));
  const EncodedPair own = words(trained_document()["post_processor"]).encode_pair("a b", "c", 16);
  EXPECT_EQ(own.ids, (Ids{2, 10, 11, 3, 12, 3}));
  EXPECT_EQ(own.types, (Ids{0, 0, 0, 0, 1, 0}));
  const EncodedPair without = words(nullptr).encode_pair("a b", "c", 16);
  EXPECT_EQ(without.ids, (Ids{2, 10, 11, 3, 12, 3}));
  EXPECT_EQ(without.types, (Ids{0, 0, 0, 0, 1, 1}));
}

TEST(EncodePair, TheLongerTextIsCutFirst) {
  const JsonTokenizer tokenizer = words(nullptr);
  const EncodedPair first = tokenizer.encode_pair("a b c d e", "f g", 7);
  EXPECT_EQ(first.ids, (Ids{2, 10, 11, 3, 15, 16, 3}));
  EXPECT_TRUE(first.is_cut);
  EXPECT_EQ(tokenizer.encode_pair("a", "b c d", 6).ids, (Ids{2, 10, 3, 11, 12, 3}));
  EXPECT_EQ(tokenizer.encode_pair("a", "b", 3).ids, (Ids{2, 3, 3}));
  EXPECT_EQ(tokenizer.encode_pair("", "", 9).ids, (Ids{2, 3, 3}));
}

TEST(EncodeTarget, MarianHasATokenizerForEachLanguage) {
  const std::string folder = ATTEND_SOURCE_DIR "/../shared/goldens/models/marian";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "there is no " << folder;
  const auto marian = load_tokenizer(folder);
  EXPECT_NE(marian->encode("今天天气很好"), marian->encode_target("今天天气很好"));
  EXPECT_EQ(marian->decode(marian->encode_target("今天天气很好")), "今天天气很好");
  EXPECT_EQ(marian->special().begin, 1999) << "where the decoder starts";
  EXPECT_EQ(marian->special().first, -1);
}

}  // namespace
}  // namespace attend::text
