#include <algorithm>

#include "attend/base/error.h"
#include "text/tokenizers/byte_level.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/tokenizers/scanner.h"
#include "text/training/trained_document.h"
#include "text/training/trainers.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr const char* kContinuing = "##";
/// Longer runs without a space teach nothing about words, and every merge would have to walk through them.
constexpr size_t kLongestWord = 400;

Json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

MergeTask byte_task(const WordCounts& counts, const Vocabulary& vocabulary, const TokenizerTraining& options) {
  MergeTask task{.vocabulary = options.vocabulary,
                 .min_count = options.min_count,
                 .join = [](const std::string& left, const std::string& right) { return left + right; }};
  for (size_t i = 0; i < counts.size(); ++i) {
    std::vector<int32_t> ids;
    for (const char byte : counts.word(i))
      ids.push_back(vocabulary.find(byte_spelling(static_cast<unsigned char>(byte))));
    task.words.push_back(std::move(ids));
    task.counts.push_back(counts.count(i));
  }
  return task;
}

/// The characters of a word as WordPiece spells them: all but the first have the prefix.
std::vector<std::string> spelled_characters(const std::string& word) {
  std::vector<std::string> characters;
  for_each_code_point(word, [&](char32_t, std::string_view bytes) {
    characters.push_back((characters.empty() ? "" : kContinuing) + std::string(bytes));
  });
  return characters;
}

MergeTask character_task(const WordCounts& counts, Vocabulary& vocabulary, const TokenizerTraining& options) {
  WordCounts characters;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (const std::string& character : spelled_characters(counts.word(i))) characters.add(character, counts.count(i));
  }
  for (const size_t i : characters.by_frequency()) {
    if (vocabulary.size() == options.vocabulary || characters.count(i) < options.min_count) break;
    if (vocabulary.find(characters.word(i)) == kNone) vocabulary.add(characters.word(i), vocabulary.size());
  }
  MergeTask task{.vocabulary = options.vocabulary,
                 .min_count = options.min_count,
                 .join = [](const std::string& left, const std::string& right) {
                   return left + (right.starts_with(kContinuing) ? right.substr(2) : right);
                 }};
  for (size_t i = 0; i < counts.size(); ++i) {
    std::vector<int32_t> ids;
    for (const std::string& character : spelled_characters(counts.word(i))) ids.push_back(vocabulary.find(character));
    if (std::ranges::find(ids, kNone) != ids.end()) continue;  // WordPiece would encode the word as unknown
    task.words.push_back(std::move(ids));
    task.counts.push_back(counts.count(i));
  }
  return task;
}

}  // namespace

Trained train_bpe(const LineSource& lines, const TokenizerTraining& options) {
  constexpr int64_t kFewest = 256 + static_cast<int64_t>(kSpecialNames.size());
  require<ShapeError>(options.vocabulary >= kFewest, "tokenizer: bpe needs a vocabulary of at least ", kFewest,
                      " tokens (256 bytes and 5 special tokens), got ", options.vocabulary);
  WordCounts counts;
  while (const auto line = lines()) {
    Scanner{}.scan({*line, true}, [&](Piece word) {
      for (size_t at = 0; at < word.text.size(); at += kLongestWord) counts.add(word.text.substr(at, kLongestWord));
    });
  }
  Vocabulary vocabulary = special_vocabulary();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.add(byte_spelling(static_cast<unsigned char>(byte)), vocabulary.size());
  const Merges merges = learn_merges(byte_task(counts, vocabulary, options), vocabulary);
  Json document = trained_document();
  document["normalizer"] = case_normalizer(options.lowercase);
  document["pre_tokenizer"] = document["decoder"] = byte_level();
  document["model"] = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary_json(vocabulary)},
                       {"merges", merges_json(merges)}};
  return finished(document);
}

Trained train_wordpiece(const LineSource& lines, const TokenizerTraining& options) {
  const Json cleaning{{"type", "BertNormalizer"},
                      {"clean_text", true},
                      {"handle_chinese_chars", true},
                      {"strip_accents", false},
                      {"lowercase", options.lowercase}};
  const Normalizer normalizer = make_normalizer(cleaning);
  const auto pre_tokenizer = make_pre_tokenizer(component("BertPreTokenizer"), false);
  WordCounts counts;
  while (const auto line = lines()) {
    TextWork work(line->size());
    const std::string text = normalizer(*line, work);
    pre_tokenizer->split({text, true}, work, [&](Piece word) {
      if (word.text.size() <= kLongestWord) counts.add(word.text);  // longer words are unknown to WordPiece
    });
  }
  Vocabulary vocabulary = special_vocabulary();
  learn_merges(character_task(counts, vocabulary, options), vocabulary);
  Json document = trained_document();
  document["normalizer"] = cleaning;
  document["pre_tokenizer"] = component("BertPreTokenizer");
  document["decoder"] = word_decoder();
  document["model"] = {{"type", "WordPiece"},
                       {"unk_token", kSpecialNames[1]},
                       {"continuing_subword_prefix", kContinuing},
                       {"max_input_chars_per_word", 100},
                       {"vocab", vocabulary_json(vocabulary)}};
  return finished(document);
}

}  // namespace attend::text
