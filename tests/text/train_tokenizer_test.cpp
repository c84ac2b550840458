#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "attend/text/readable_token.h"
#include "attend/text/tokenizer.h"
#include "testing/gradients.h"
#include "testing/process.h"
#include "text/random_text.h"
#include "text/training/merge_learner.h"

namespace attend {
namespace {

using Ids = std::vector<int32_t>;
using Lines = std::vector<std::string>;
using testing::expect_error;
using testing::file_text;

const std::vector<TokenizerKind> kKinds{TokenizerKind::characters, TokenizerKind::words, TokenizerKind::bpe,
                                        TokenizerKind::wordpiece, TokenizerKind::sentencepiece};

LineSource source(const Lines& lines) {
  return [&lines, at = size_t{0}]() mutable -> std::optional<std::string> {
    return at < lines.size() ? std::optional(lines[at++]) : std::nullopt;
  };
}

Lines corpus() {
  Lines lines;
  for (int i = 0; i < 60; ++i) {
    lines.push_back("The quick brown fox, number " + std::to_string(i * i) + ", jumps over the lazy dog; isn't it?");
    lines.push_back("今天天气很好，我们去公园散步。明天再说吧！");
    lines.push_back("Der Fuß größer als die Tür: ein schöner Tag für naïve Läufer.");
    lines.push_back(
        "العربية עברית हिन्दी ภาษาไทย 👩‍👩‍👧 e\u0301 👍🏽");
  }
  return lines;
}

std::shared_ptr<const Tokenizer> trained(const TokenizerTraining& options, const Lines& lines = corpus()) {
  return train_tokenizer(source(lines), options);
}

std::string round_trip(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text));
}

TEST(TrainTokenizer, SpecialTokensComeFirst) {
  for (const TokenizerKind kind : kKinds) {
    const auto tokenizer = trained({.kind = kind, .vocabulary = 600});
    const std::vector<std::string> names{"<pad>", "<unk>", "<s>", "</s>", "<mask>"};
    for (int32_t id = 0; id < 5; ++id) EXPECT_EQ(tokenizer->token(id), names[static_cast<size_t>(id)]);
    const SpecialTokens& special = tokenizer->special();
    EXPECT_EQ((Ids{special.pad, special.unknown, special.begin, special.end, special.mask}), (Ids{0, 1, 2, 3, 4}));
    EXPECT_LE(tokenizer->size(), 600);
    EXPECT_GT(tokenizer->size(), 50);
    Ids framed = tokenizer->encode("The fox");
    framed.insert(framed.begin(), 2);
    framed.push_back(3);
    EXPECT_EQ(tokenizer->encode("The fox", true), framed);
    EXPECT_EQ(tokenizer->decode(framed), "The fox");
  }
}

TEST(TrainTokenizer, TextOfEveryScriptRoundTrips) {
  for (const TokenizerKind kind : {TokenizerKind::characters, TokenizerKind::bpe, TokenizerKind::sentencepiece}) {
    const auto tokenizer = trained({.kind = kind, .vocabulary = 800});
    for (const std::string& line : corpus()) ASSERT_EQ(round_trip(*tokenizer, line), line);
    for (const std::string text :
         {"", " ", "  the  fox ", "今天 天气", "👩‍👩‍👧👍🏽", "e\u0301e\u0301", "עברית العربية"}) {
      ASSERT_EQ(round_trip(*tokenizer, text), text);
    }
  }
}

TEST(TrainTokenizer, UnseenCharactersRoundTripAsBytes) {
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::sentencepiece}) {
    const auto tokenizer = trained({.kind = kind, .vocabulary = 700});
    testing::RandomText random(19);
    for (int i = 0; i < 1500; ++i) {
      const std::string text = random.text(random.below(30));
      if (text.find("▁") != std::string::npos) continue;  // SentencePiece's sign for a space
      ASSERT_EQ(round_trip(*tokenizer, text), text) << ::testing::PrintToString(text);
    }
  }
}

TEST(TrainTokenizer, NamesOfSpecialTokensInATextArePlainText) {
  const Lines lines{"struck <s>out</s> and <pad> or <mask>", "struck <s>out</s> and <pad> or <mask>"};
  for (const TokenizerKind kind : {TokenizerKind::characters, TokenizerKind::bpe}) {
    const auto tokenizer = train_tokenizer(source(lines), {.kind = kind, .vocabulary = 300});
    const Ids ids = tokenizer->encode(lines[0]);
    EXPECT_EQ(tokenizer->decode(ids), lines[0]);
    for (const int32_t id : ids) EXPECT_GT(id, 4);
  }
}

TEST(TrainTokenizer, CharactersAreCodePoints) {
  const auto tokenizer =
      trained({.kind = TokenizerKind::characters, .vocabulary = 100, .min_count = 2}, {"aab今今", "éé", "x"});
  EXPECT_EQ(tokenizer->size(), 5 + 4) << "a, 今, é and the line's end; b and x were seen once";
  EXPECT_EQ(tokenizer->encode("今b\n").size(), 3u);
  EXPECT_EQ(tokenizer->encode("b"), (Ids{1}));
  EXPECT_EQ(round_trip(*tokenizer, "a今\né"), "a今\né");
}

TEST(TrainTokenizer, WordTokenizersKeepWordsWhole) {
  const auto tokenizer = trained({.kind = TokenizerKind::words, .vocabulary = 300, .min_count = 1});
  const auto words = [&](const std::string& text) {
    Lines tokens;
    for (const int32_t id : tokenizer->encode(text)) tokens.push_back(tokenizer->token(id));
    return tokens;
  };
  EXPECT_EQ(words("The fox isn't  naïve, 今天。"), (Lines{"The", "fox", "isn't", "naïve", ",", "今", "天", "。"}));
  EXPECT_EQ(words("unheard"), (Lines{"<unk>"}));
  EXPECT_EQ(round_trip(*tokenizer, "今天天气很好，我们去公园散步。"), "今天天气很好，我们去公园散步。");
  EXPECT_EQ(round_trip(*tokenizer, "The quick brown fox, number 4, isn't it?"),
            "The quick brown fox, number 4, isn't it?");
}

TEST(TrainTokenizer, WordPieceSplitsWordsAndKeepsAccents) {
  const auto tokenizer = trained({.kind = TokenizerKind::wordpiece, .vocabulary = 400});
  const Ids ids = tokenizer->encode("foxes");
  EXPECT_GT(ids.size(), 1u);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(tokenizer->token(ids[i]).starts_with("##"), i > 0);
  EXPECT_EQ(round_trip(*tokenizer, "größer Läufer, The dog"), "größer Läufer, The dog");
  EXPECT_EQ(round_trip(*tokenizer, "今天天气很好，明天再说吧！"), "今天天气很好，明天再说吧！");
}

TEST(TrainTokenizer, TokensCanBeRead) {
  const auto bpe = trained({.kind = TokenizerKind::bpe, .vocabulary = 800});
  std::string shown;
  for (const int32_t id : bpe->encode("今天 the\n")) shown += readable_token(*bpe, id) + "|";
  EXPECT_EQ(shown, "今天|Ġthe|Ċ|");
  EXPECT_EQ(readable_token(*bpe, 5 + 0xe4), "ä") << "a part of a character";
  EXPECT_EQ(readable_token(*bpe, 2), "<s>");
  const auto characters = trained({.kind = TokenizerKind::characters, .vocabulary = 100}, {"Ã Ã © ©"});
  EXPECT_EQ(readable_token(*characters, *characters->find("Ã")), "Ã");
}

TEST(TrainTokenizer, LowercaseAppliesToEncodedTextToo) {
  for (const TokenizerKind kind : kKinds) {
    const auto tokenizer = trained({.kind = kind, .vocabulary = 600, .lowercase = true});
    EXPECT_EQ(tokenizer->encode("THE QUICK Fox"), tokenizer->encode("the quick fox"));
    EXPECT_EQ(round_trip(*tokenizer, "THE QUICK Fox"), "the quick fox");
    const auto cased = trained({.kind = kind, .vocabulary = 600});
    EXPECT_NE(cased->encode("THE"), cased->encode("the"));
  }
}

TEST(TrainTokenizer, SameLinesSameFilesAndTheyLoadAgain) {
  for (const TokenizerKind kind : kKinds) {
    const testing::TemporaryFolder first, second;
    const auto tokenizer = trained({.kind = kind, .vocabulary = 500});
    tokenizer->save(first.path());
    trained({.kind = kind, .vocabulary = 500})->save(second.path());
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(first.path())) names.insert(entry.path().filename());
    const char* main_file = kind == TokenizerKind::sentencepiece ? "tokenizer.model" : "tokenizer.json";
    EXPECT_EQ(names, (std::set<std::string>{main_file, "tokenizer_config.json"}));
    for (const std::string& name : names) EXPECT_EQ(file_text(first.file(name)), file_text(second.file(name)));
    const auto again = load_tokenizer(first.path());
    ASSERT_EQ(again->size(), tokenizer->size());
    for (const std::string& line : corpus()) ASSERT_EQ(again->encode(line, true), tokenizer->encode(line, true));
    EXPECT_EQ(again->special().mask, 4);
  }
}

/// Algorithm 1 of Sennrich et al. as written: count all pairs, merge the most frequent, repeat.
text::Merges defined_merges(text::MergeTask task, text::Vocabulary vocabulary) {
  text::Merges merges;
  std::set<std::pair<int32_t, int32_t>> learnt;
  while (vocabulary.size() < task.vocabulary) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (size_t i = 0; i < task.words.size(); ++i) {
      for (size_t at = 0; at + 1 < task.words[i].size(); ++at) {
        counts[{task.words[i][at], task.words[i][at + 1]}] += task.counts[i];
      }
    }
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < task.min_count) break;
    const auto [left, right] = best->first;
    const std::string joined = task.join(vocabulary.token(left), vocabulary.token(right));
    if (learnt.insert(best->first).second) merges.emplace_back(vocabulary.token(left), vocabulary.token(right));
    if (vocabulary.find(joined) == text::kNone) vocabulary.add(joined, vocabulary.size());
    for (auto& word : task.words) {
      std::vector<int32_t> out;
      for (size_t at = 0; at < word.size(); ++at) {
        const bool here = word[at] == left && at + 1 < word.size() && word[at + 1] == right;
        out.push_back(here ? vocabulary.find(joined) : word[at]);
        at += here;
      }
      word = out;
    }
  }
  return merges;
}

/// The two count overlapping pairs (as in aaa) differently, so the words have no three equal letters in a row.
TEST(LearnMerges, EqualsItsDefinition) {
  testing::RandomText random(23);
  for (int round = 0; round < 40; ++round) {
    text::Vocabulary vocabulary;
    for (const char* letter : {"a", "b", "c", "d"}) vocabulary.add(letter, vocabulary.size());
    text::MergeTask task{.vocabulary = 4 + 12, .min_count = 2, .join = std::plus<std::string>()};
    for (int i = 0; i < 30; ++i) {
      std::vector<int32_t> word;
      for (uint32_t length = 1 + random.below(9); length > 0; --length) {
        int32_t letter = static_cast<int32_t>(random.below(4));
        while (!word.empty() && word.back() == letter) letter = static_cast<int32_t>(random.below(4));
        word.push_back(letter);
      }
      task.words.push_back(word);
      task.counts.push_back(1 + random.below(5));
    }
    text::Vocabulary learnt = vocabulary;
    ASSERT_EQ(text::learn_merges(task, learnt), defined_merges(task, vocabulary));
  }
}

TEST(TrainTokenizer, InvalidOptionsAreRefused) {
  expect_error<ShapeError>(
      [] { trained({.vocabulary = 260}); },
      "tokenizer: bpe needs a vocabulary of at least 261 tokens (256 bytes and 5 special tokens), got 260");
  expect_error<ShapeError>([] { trained({.kind = TokenizerKind::words, .vocabulary = 5}); },
                           "tokenizer: expected a vocabulary of 6 to 4000000 tokens, got 5");
  for (const TokenizerKind kind : kKinds) {
    expect_error<Error>([&] { trained({.kind = kind}, {}); }, "tokenizer: the corpus is empty");
    expect_error<FormatError>(
        [&] {
          trained({.kind = kind}, {"ok", "ab\xff"});
        },
        "text: expected UTF-8, got an invalid sequence at byte 2");
  }
  expect_error<Error>([] { tokenizer_kind("BPE"); },
                      "tokenizer: expected char, word, bpe, wordpiece or sentencepiece, got 'BPE'");
  EXPECT_EQ(tokenizer_kind("char"), TokenizerKind::characters);
  EXPECT_EQ(tokenizer_kind("word"), TokenizerKind::words);
  EXPECT_EQ(tokenizer_kind("bpe"), TokenizerKind::bpe);
  EXPECT_EQ(tokenizer_kind("wordpiece"), TokenizerKind::wordpiece);
  EXPECT_EQ(tokenizer_kind("sentencepiece"), TokenizerKind::sentencepiece);
  EXPECT_THROW(trained({.kind = TokenizerKind::sentencepiece, .vocabulary = 10}), Error);
}

}  // namespace
}  // namespace attend
