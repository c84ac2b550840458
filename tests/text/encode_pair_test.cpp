// Two texts as one sequence, and texts of the target language.
#include <filesystem>
#include <fstream>

#include "attend/text/tokenizer.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/training/trained_document.h"

namespace attend::text {
namespace {

using Ids = std::vector<int32_t>;

/// A word tokenizer with ids from 10 on, the special tokens 0 … 4, and the given template.
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

TEST(EncodePair, TheLongerTextIsTruncatedFirst) {
  const JsonTokenizer tokenizer = words(nullptr);
  const EncodedPair first = tokenizer.encode_pair("a b c d e", "f g", 7);
  EXPECT_EQ(first.ids, (Ids{2, 10, 11, 3, 15, 16, 3}));
  EXPECT_TRUE(first.is_cut);
  EXPECT_EQ(tokenizer.encode_pair("a", "b c d", 6).ids, (Ids{2, 10, 3, 11, 12, 3}));
  EXPECT_EQ(tokenizer.encode_pair("a", "b", 3).ids, (Ids{2, 3, 3}));
  EXPECT_EQ(tokenizer.encode_pair("", "", 9).ids, (Ids{2, 3, 3}));
}

std::shared_ptr<const Tokenizer> pieces_of(const std::string& text) {
  int left = 20;
  return train_tokenizer([&] { return left-- > 0 ? std::optional(text) : std::nullopt; },
                         {.kind = TokenizerKind::sentencepiece, .vocabulary = 290});
}

TEST(EncodeTarget, MarianHasATokenizerForEachLanguage) {
  const testing::TemporaryFolder folder;
  Json vocabulary{{"</s>", 0}, {"<unk>", 1}};
  for (const auto& [name, text] :
       {std::pair("source", "the dog runs in the park"), std::pair("target", "狗在公园里跑")}) {
    const auto pieces = pieces_of(text);
    pieces->save(folder.path());
    std::filesystem::rename(folder.file("tokenizer.model"), folder.file(std::string(name) + ".spm"));
    for (int32_t id = 5; id < pieces->size(); ++id) {
      const std::string token = pieces->token(id);
      if (!vocabulary.contains(token)) vocabulary[token] = Json(vocabulary.size());
    }
  }
  vocabulary["<pad>"] = Json(vocabulary.size());
  std::filesystem::remove(folder.file("tokenizer_config.json"));
  std::ofstream(folder.file("vocab.json")) << vocabulary;
  std::ofstream(folder.file("config.json")) << Json{{"decoder_start_token_id", vocabulary["<pad>"]}};
  const auto marian = load_tokenizer(folder.path());
  const Ids target = marian->encode_target("狗在公园里跑");
  EXPECT_NE(marian->encode("狗在公园里跑"), target) << "which are bytes to the source's";
  EXPECT_EQ(marian->decode(target), "狗在公园里跑");
  EXPECT_NE(marian->encode("the dog"), marian->encode_target("the dog"));
  EXPECT_EQ(marian->special().begin, vocabulary["<pad>"]) << "where the decoder starts";
  EXPECT_EQ(marian->special().first, -1);
}

}  // namespace
}  // namespace attend::text
