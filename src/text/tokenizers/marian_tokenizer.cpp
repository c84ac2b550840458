#include "text/tokenizers/marian_tokenizer.h"

#include "attend/base/error.h"
#include "io/atomic_file.h"
#include "text/tokenizers/subword_model.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

Vocabulary vocabulary_from(const std::string& text) {
  Json json;
  json["vocab"] = parse_json(text);
  return read_vocabulary(json);
}

/// Length of the language code at the start of a text (>>zho<<), or 0.
size_t language_code(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t end = line.starts_with(">>") ? line.rfind("<<") : std::string_view::npos;
  return end == std::string_view::npos || end < 3 ? 0 : end + 2;
}

}  // namespace

MarianTokenizer::MarianTokenizer(MarianFiles files, const TokenizerConfig& config)
    : files_(std::move(files)),
      config_(config.config),
      source_(files_.source),
      target_(files_.target),
      tokens_(vocabulary_from(files_.vocabulary)) {
  special_ = find_special_tokens(config, [&](const std::string& name) { return tokens_.find(name); });
  require<FormatError>(special_.unknown >= 0 && special_.end >= 0, "vocab.json has no <unk> or no </s>");
  for (const int32_t id : {special_.pad, special_.unknown, special_.end}) {
    if (id >= 0) finder_.add({.content = tokens_.token(id), .id = id, .special = true}, tokens_.token(id));
  }
}

std::vector<int32_t> MarianTokenizer::encode_with(const SentencePieceModel& model, std::string_view text) const {
  require_utf8(text);
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view piece) {
    const int32_t id = tokens_.find(piece);
    ids.push_back(id == kNone ? special_.unknown : id);
  };
  finder_.split(text, [&](TokenFinder::Part part) {
    if (part.id != kNone) return ids.push_back(part.id);
    const size_t code = language_code(part.text);
    if (code > 0) add(part.text.substr(0, code));
    model.encode(part.text.substr(code), [&](std::string_view piece, int32_t) { add(piece); });
  });
  return ids;
}

std::vector<int32_t> MarianTokenizer::encode(std::string_view text, bool add_special) const {
  std::vector<int32_t> ids = encode_with(source_, text);
  if (add_special) ids.push_back(special_.end);
  return ids;
}

std::vector<int32_t> MarianTokenizer::encode_target(std::string_view text) const { return encode_with(target_, text); }

/// Special tokens separate the text of the pieces. Each is followed by a space.
std::string MarianTokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string out;
  std::vector<std::string> pieces;
  const auto flush = [&] {
    out += target_.decode(pieces);
    pieces.clear();
  };
  for (const int32_t id : ids) {
    if (!is_special(id)) {
      pieces.push_back(tokens_.token(id));
    } else if (keep_special) {
      flush();
      out += tokens_.token(id) + " ";
    }
  }
  flush();
  out = replaced(out, "▁", " ");
  const size_t begin = out.find_first_not_of(" \n\t\r"), end = out.find_last_not_of(" \n\t\r");
  return begin == std::string::npos ? "" : repair_utf8(out.substr(begin, end + 1 - begin)).text;
}

std::string MarianTokenizer::token(int32_t id) const {
  require<ShapeError>(id >= 0 && id < size(), "tokenizer: expected an id from 0 to ", size() - 1, ", got ", id);
  return tokens_.token(id);
}

std::optional<int32_t> MarianTokenizer::find(std::string_view token) const {
  const int32_t id = tokens_.find(token);
  return id == kNone ? std::nullopt : std::optional(id);
}

void MarianTokenizer::save(const std::string& folder) const {
  const auto write = [&](const char* name, const std::string& content) {
    AtomicFile file(folder + "/" + name);
    file.write(content.data(), content.size());
    file.commit();
  };
  write("source.spm", files_.source);
  write("target.spm", files_.target);
  if (!config_.is_null()) write("tokenizer_config.json", config_.dump(2));
  write("vocab.json", files_.vocabulary);
}

}  // namespace attend::text
