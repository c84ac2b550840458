#include "hub/save_tokenizer.h"

#include <filesystem>

#include "attend/io/files.h"
#include "hub/generation.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace attend::hub {
namespace {

namespace fs = std::filesystem;
using Ordered = Json;

constexpr const char* kDocument = "/tokenizer.json";
constexpr const char* kConfig = "/tokenizer_config.json";

/// The ids at the begin and end of a text. Our language models separate texts by the end token, and begin with it too.
struct Marks {
  int32_t begin, end, pad;
};
Marks marks_of(const Written& written) {
  const SpecialTokens& special = written.tokenizer.special();
  const bool is_ours = !written.rules.as_transformers;
  const bool begins_with_end = is_ours && written.model.kind() == ModelKind::language && special.end >= 0;
  return {begins_with_end ? special.end : special.begin, special.end, special.pad};
}

/// The tokens that our own search never generates: see Vocabulary::banned.
Ordered banned_words(const SpecialTokens& special) {
  Ordered lists = Ordered::array();
  for (const int32_t id : {special.pad, special.begin, special.mask, special.unknown}) {
    const Ordered list = Ordered::array({id});
    if (id >= 0 && id != special.end && std::ranges::find(lists, list) == lists.end()) lists.push_back(list);
  }
  return lists;
}

/// The special tokens before and after a text, as in training.
struct Frame {
  int32_t before = -1, behind = -1;
};
Frame frame_of(const Model& model, const SpecialTokens& special) {
  if (model.kind() == ModelKind::translation) return {special.first, special.end};
  if (model.kind() == ModelKind::classification) return {special.begin, special.end};
  return {};
}

bool has_frame(const Tokenizer& tokenizer, const Frame& frame) {
  std::vector<int32_t> framed = tokenizer.encode("a", false);
  if (frame.before >= 0) framed.insert(framed.begin(), frame.before);
  if (frame.behind >= 0) framed.push_back(frame.behind);
  return framed == tokenizer.encode("a", true);
}

Ordered frame_json(const Tokenizer& tokenizer, const Frame& frame) {
  if (frame.before < 0 && frame.behind < 0) return nullptr;
  Ordered known = Ordered::object(), single = Ordered::array(), pair = Ordered::array();
  const auto add_mark = [&](Ordered& list, int32_t id) {
    if (id < 0) return;
    const std::string name = tokenizer.token(id);
    known[name] = {{"id", name}, {"ids", Ordered::array({id})}, {"tokens", Ordered::array({name})}};
    list.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  };
  const auto add_text = [](Ordered& list, const char* id, int type) {
    list.push_back({{"Sequence", {{"id", id}, {"type_id", type}}}});
  };
  for (Ordered* list : {&single, &pair}) {
    add_mark(*list, frame.before);
    add_text(*list, "A", 0);
    add_mark(*list, frame.behind);
  }
  add_text(pair, "B", 1);
  add_mark(pair, frame.behind);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", known}};
}

/// Saves the tokenizer's files; a SentencePiece tokenizer as tokenizer.json if possible.
void save_files(const Tokenizer& tokenizer, const std::string& to, const std::string& folder) {
  tokenizer.save(folder);
  const auto* pieces = dynamic_cast<const text::SentencePieceTokenizer*>(&tokenizer);
  if (const auto document = pieces ? pieces->document() : std::nullopt) {
    write_file(folder + kDocument, document->dump());
    fs::remove(folder + "/tokenizer.model");
  } else if (pieces && to == "t5") {
    fs::rename(folder + "/tokenizer.model", folder + "/spiece.model");
  }
}

const char* tokenizer_class(const std::string& to, const std::string& folder) {
  if (fs::exists(folder + kDocument)) return "PreTrainedTokenizerFast";
  if (fs::exists(folder + "/source.spm")) return "MarianTokenizer";
  return to == "t5" ? "T5Tokenizer" : "LlamaTokenizer";
}

/// tokenizer_config.json, which AutoTokenizer needs beside the tokenizer's own file.
Ordered config_json(const Written& written, const std::string& to, const std::string& folder) {
  Ordered json = fs::exists(folder + kConfig) ? Ordered::parse(read_file(folder + kConfig)) : Ordered::object();
  const bool is_document = fs::exists(folder + kDocument);
  if (is_document || !json.contains("tokenizer_class")) json["tokenizer_class"] = tokenizer_class(to, folder);
  json["model_max_length"] = written.model.context();
  const ModelKind kind = written.model.kind();
  // Models without token types must not receive any, and transformers' default inputs may change.
  json["model_input_names"] = {"input_ids", "attention_mask"};
  if (kind == ModelKind::classification) json["model_input_names"].push_back("token_type_ids");
  if (written.rules.as_transformers) return json;
  json["clean_up_tokenization_spaces"] = false;
  const Marks marks = marks_of(written);
  const auto add = [&](const char* name, int32_t id) {
    if (id >= 0) json[name] = written.tokenizer.token(id);
  };
  add("bos_token", marks.begin);
  add("eos_token", marks.end);
  add("pad_token", marks.pad);
  add("unk_token", written.tokenizer.special().unknown);
  add("mask_token", written.tokenizer.special().mask);
  // tokenizer.json has these in its template; otherwise the tokenizer class adds the tokens.
  for (const char* key : {"add_bos_token", "add_eos_token", "legacy", "do_lower_case"}) {
    if (is_document) json.erase(key);
  }
  if (is_document) return json;
  const Frame frame = frame_of(written.model, written.tokenizer.special());
  json["add_bos_token"] = frame.before >= 0;
  json["add_eos_token"] = frame.behind >= 0;
  return json;
}

}  // namespace

Ordered token_ids(const Written& written) {
  const Marks marks = marks_of(written);
  Ordered json = Ordered::object();
  const auto add = [&](const char* name, int32_t id) { json[name] = id >= 0 ? Ordered(id) : Ordered(nullptr); };
  add("bos_token_id", marks.begin);
  add("eos_token_id", marks.end);
  add("pad_token_id", marks.pad);
  if (written.model.kind() != ModelKind::translation) return json;
  const int32_t start = written.rules.start >= 0 ? written.rules.start : marks.begin;
  json["decoder_start_token_id"] = start >= 0 ? start : marks.end;
  return json;
}

Ordered generation_json(const Written& written) {
  Ordered json = token_ids(written);
  if (written.rules.as_transformers) {
    json.update(rules_json(written.rules));
  } else if (written.model.kind() == ModelKind::translation) {
    if (json["eos_token_id"].is_number()) json["forced_eos_token_id"] = json["eos_token_id"];
    json["max_length"] = written.model.context();
    json["bad_words_ids"] = banned_words(written.tokenizer.special());
  }
  return json;
}

void save_tokenizer(const Written& written, const std::string& to, const std::string& folder) {
  save_files(written.tokenizer, to, folder);
  const Frame frame = frame_of(written.model, written.tokenizer.special());
  const bool keeps_own = written.rules.as_transformers ||
                         (written.model.kind() == ModelKind::classification && has_frame(written.tokenizer, frame));
  if (fs::exists(folder + kDocument) && !keeps_own) {
    Ordered document = Ordered::parse(read_file(folder + kDocument));
    document["post_processor"] = frame_json(written.tokenizer, frame);
    write_file(folder + kDocument, document.dump());
  }
  write_file(folder + kConfig, config_json(written, to, folder).dump(2) + "\n");
}

}  // namespace attend::hub
