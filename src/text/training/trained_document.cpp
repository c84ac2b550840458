#include "text/training/trained_document.h"

#include "text/tokenizers/json_tokenizer.h"

namespace attend::text {
namespace {

Json special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
Json sequence(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

Json around_text() {
  const char *begin = kSpecialNames[2], *end = kSpecialNames[3];
  Json tokens;
  for (const int id : {2, 3}) {
    const char* name = kSpecialNames[static_cast<size_t>(id)];
    tokens[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", {special(begin), sequence("A", 0), special(end)}},
          {"pair", {special(begin), sequence("A", 0), special(end), sequence("B", 1), special(end)}},
          {"special_tokens", tokens}};
}

}  // namespace

Vocabulary special_vocabulary() {
  Vocabulary vocabulary;
  for (const char* name : kSpecialNames) vocabulary.add(name, vocabulary.size());
  return vocabulary;
}

Json component(const char* type) { return {{"type", type}}; }

Json case_normalizer(bool lowercase) { return lowercase ? component("Lowercase") : Json(); }

Json added_special(const std::string& content, int64_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json trained_document() {
  Json added = Json::array();
  for (size_t id = 0; id < kSpecialNames.size(); ++id) {
    added.push_back(added_special(kSpecialNames[id], static_cast<int64_t>(id)));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", around_text()},
          {"decoder", nullptr}};
}

Json vocabulary_json(const Vocabulary& vocabulary) {
  Json json = Json::object();
  for (int64_t id = 0; id < vocabulary.size(); ++id) json[vocabulary.token(id)] = id;
  return json;
}

Json merges_json(const Merges& merges) {
  Json json = Json::array();
  for (const auto& [left, right] : merges) json.push_back(left + " " + right);
  return json;
}

Json word_decoder() {
  const std::string wide = "、-〿！-･", single = R"(\p{Han}\p{Hiragana}\p{Katakana})" + wide;
  const std::string joint = "(?<=[" + single + "]) (?=[" + single + "])|(?<=[" + wide + "]) | (?=[" + wide + "])";
  const Json words{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const Json joining{{"type", "Replace"}, {"pattern", {{"Regex", joint}}}, {"content", ""}};
  return {{"type", "Sequence"}, {"decoders", {words, component("Fuse"), joining}}};
}

Json trained_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"pad_token", kSpecialNames[0]},
          {"unk_token", kSpecialNames[1]},
          {"bos_token", kSpecialNames[2]},
          {"eos_token", kSpecialNames[3]},
          {"mask_token", kSpecialNames[4]},
          {"clean_up_tokenization_spaces", false},
          {"split_special_tokens", true}};
}

std::shared_ptr<const Tokenizer> finished(const Json& document) {
  return std::make_shared<JsonTokenizer>(document.dump(), TokenizerConfig{trained_config(), {}, {}});
}

}  // namespace attend::text
