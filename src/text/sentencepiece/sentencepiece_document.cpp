#include <algorithm>

#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/training/trained_document.h"

namespace attend::text {
namespace {

using Type = SentencePieceProto::Type;

/// Score penalty that puts these tokens so far below all real pieces that no text is ever encoded as one of them.
constexpr double kNeverChosen = 1000;

/// Whether Hugging Face's Unigram model can represent this model.
bool has_document(const SentencePieceProto& proto) {
  const bool is_plain = proto.charsmap.empty() && proto.add_dummy_prefix && proto.escape_whitespaces &&
                        !proto.remove_extra_whitespaces && !proto.treat_whitespace_as_suffix;
  return is_plain && proto.algorithm == SentencePieceProto::Algorithm::unigram && proto.byte_fallback &&
         std::ranges::none_of(proto.pieces, [](const auto& piece) { return piece.type == Type::user_defined; });
}

Json pieces_json(const SentencePieceProto& proto) {
  double least = 0;
  for (const auto& piece : proto.pieces) least = std::min(least, static_cast<double>(piece.score));
  Json list = Json::array();
  for (const auto& piece : proto.pieces) {
    const bool is_text = piece.type == Type::normal || piece.type == Type::unused;
    list.push_back({piece.text, is_text ? static_cast<double>(piece.score) : least - kNeverChosen});
  }
  return list;
}

Json added_json(const SentencePieceProto& proto) {
  Json list = Json::array();
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    const auto& [text, score, type] = proto.pieces[id];
    if (type == Type::control || type == Type::unknown) list.push_back(added_special(text, static_cast<int64_t>(id)));
  }
  return list;
}

Json replaced_by(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

}  // namespace

std::optional<Json> SentencePieceTokenizer::document() const {
  const SentencePieceProto& proto = model_.proto();
  if (!has_document(proto) || tokens_.size() != model_.vocabulary().size() || !added_special_.empty()) {
    return std::nullopt;
  }
  Json json = trained_document();
  json["added_tokens"] = added_json(proto);
  Json steps = Json::array();
  if (lowercase_) steps.push_back(component("Lowercase"));
  steps.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  steps.push_back(replaced_by(" ", "▁"));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const Json strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders", {replaced_by("▁", " "), component("ByteFallback"), component("Fuse"), strip}}};
  json["model"] = {
      {"type", "Unigram"}, {"unk_id", model_.unknown()}, {"vocab", pieces_json(proto)}, {"byte_fallback", true}};
  return json;
}

}  // namespace attend::text
