#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/training/trained_document.h"
#include "text/training/trainers.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

/// Matches words including apostrophes and hyphens inside them, numbers including decimal points, single Chinese and
/// Japanese characters, and any other single sign. Valid for both Oniguruma and ICU.
std::string word_pattern() {
  const std::string single = R"(\p{Han}\p{Hiragana}\p{Katakana})";
  const std::string letter = R"([[\p{L}\p{M}\p{N}_]&&[^)" + single + "]]";
  return R"(\p{N}+(?:[.,:]\p{N}+)+|)" + letter + "+(?:['’-]" + letter + R"(+)*|[^\s])";
}

/// Adds the most frequent words that reach min_count, until the vocabulary is full.
void add_frequent(const WordCounts& counts, const TokenizerTraining& options, Vocabulary& vocabulary) {
  for (const size_t i : counts.by_frequency()) {
    if (vocabulary.size() == options.vocabulary || counts.count(i) < options.min_count) break;
    if (vocabulary.find(counts.word(i)) == kNone) vocabulary.add(counts.word(i), vocabulary.size());
  }
}

}  // namespace

Trained train_characters(const LineSource& lines, const TokenizerTraining& options) {
  WordCounts counts;
  int64_t line_count = 0;
  while (const auto line = lines()) {
    ++line_count;
    for_each_code_point(*line, [&](char32_t, std::string_view bytes) { counts.add(bytes); });
  }
  if (line_count > 1) counts.add("\n", line_count);  // the separator of lines; a language model needs it
  Vocabulary vocabulary = special_vocabulary();
  add_frequent(counts, options, vocabulary);
  Json document = trained_document();
  document["normalizer"] = case_normalizer(options.lowercase);
  document["decoder"] = component("Fuse");
  document["model"] = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", kSpecialNames[1]},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary_json(vocabulary)},
                       {"merges", Json::array()}};
  return finished(document);
}

Trained train_words(const LineSource& lines, const TokenizerTraining& options) {
  const Json cutting{
      {"type", "Split"}, {"pattern", {{"Regex", word_pattern()}}}, {"behavior", "Removed"}, {"invert", true}};
  const auto pre_tokenizer = make_pre_tokenizer(cutting, false);
  WordCounts counts;
  while (const auto line = lines()) {
    TextWork work(line->size());
    if (!line->empty()) pre_tokenizer->split({*line, true}, work, [&](Piece word) { counts.add(word.text); });
  }
  Vocabulary vocabulary = special_vocabulary();
  add_frequent(counts, options, vocabulary);
  Json document = trained_document();
  document["normalizer"] = case_normalizer(options.lowercase);
  document["pre_tokenizer"] = cutting;
  document["decoder"] = word_decoder();
  document["model"] = {{"type", "WordLevel"}, {"vocab", vocabulary_json(vocabulary)}, {"unk_token", kSpecialNames[1]}};
  return finished(document);
}

}  // namespace attend::text
