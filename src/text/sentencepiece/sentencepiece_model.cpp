#include "text/sentencepiece/sentencepiece_model.h"

#include <algorithm>

#include "io/printable.h"
#include "text/sentencepiece/sentencepiece_bpe.h"
#include "text/tokenizers/subword_model.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

using Type = SentencePieceProto::Type;
using Algorithm = SentencePieceProto::Algorithm;

constexpr std::string_view kSpace = "▁";

}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view bytes) : proto_(parse_sentencepiece(bytes)) {
  for (int32_t id = 0; id < static_cast<int32_t>(proto_.pieces.size()); ++id) {
    const auto& [text, score, type] = proto_.pieces[static_cast<size_t>(id)];
    vocabulary_.add(text, id);
    if (type == Type::unknown) unknown_ = id;
    if (type == Type::normal || type == Type::user_defined || type == Type::unused) segmentable_.set(text, id);
    if (type == Type::user_defined) user_defined_.add(text, id);
    if (proto_.algorithm != Algorithm::unigram) continue;
    if (type == Type::normal) lattice_.add(text, id, score);
    if (type == Type::user_defined) lattice_.add_preferred(text, id);
  }
  if (!proto_.charsmap.empty()) charsmap_.emplace(proto_.charsmap);
  if (proto_.byte_fallback) byte_ids_ = byte_fallback_ids(vocabulary_);
}

SentencePieceModel::Prefix SentencePieceModel::normalized_prefix(std::string_view text) const {
  if (const auto match = user_defined_.longest_prefix(text); match.length > 0) {
    return {match.length, std::string(text.substr(0, match.length))};
  }
  if (charsmap_) {
    if (const auto match = charsmap_->find(text, Charsmap::Take::longest)) {
      return {match->length, repair_utf8(match->by).text};
    }
  }
  const size_t length = std::min(utf8_length(text[0]), text.size());
  return {length, repair_utf8(text.substr(0, length)).text};
}

std::string SentencePieceModel::normalize(std::string_view text) const {
  const bool trims = proto_.remove_extra_whitespaces;
  const std::string_view space = proto_.escape_whitespaces ? kSpace : " ";
  while (trims && !text.empty()) {
    const Prefix prefix = normalized_prefix(text);
    if (prefix.text != " ") break;
    text.remove_prefix(prefix.length);
  }
  if (text.empty()) return "";
  std::string out;
  if (proto_.add_dummy_prefix && !proto_.treat_whitespace_as_suffix) out += space;
  bool after_space = trims;  // drop further spaces
  while (!text.empty()) {
    const Prefix prefix = normalized_prefix(text);
    std::string_view added = prefix.text;
    while (after_space && added.starts_with(' ')) added.remove_prefix(1);
    for (const char byte : added) {
      if (byte == ' ')
        out += space;
      else
        out += byte;
    }
    if (!added.empty()) after_space = trims && added.ends_with(' ');
    text.remove_prefix(prefix.length);
  }
  while (trims && out.ends_with(space)) out.erase(out.size() - space.size());
  if (proto_.add_dummy_prefix && proto_.treat_whitespace_as_suffix) out += space;
  return out;
}

void SentencePieceModel::emit(std::string_view piece, int32_t id, const Visit& visit) const {
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool as_bytes = id == kNone && !byte_ids_.empty() &&
                        std::ranges::all_of(piece, [&](char byte) { return byte_id(byte) != kNone; });
  if (!as_bytes) return visit(piece, id == kNone ? unknown_ : id);
  for (const char byte : piece) visit(vocabulary_.token(byte_id(byte)), byte_id(byte));
}

void SentencePieceModel::encode_characters(std::string_view text, const Visit& visit) const {
  while (!text.empty()) {
    const size_t defined = user_defined_.longest_prefix(text).length;
    const size_t length = defined > 0 ? defined : utf8_length(text[0]);
    visit(text.substr(0, length), segmentable_.find(text.substr(0, length)));
    text.remove_prefix(length);
  }
}

void SentencePieceModel::encode_words(std::string_view text, const Visit& visit) const {
  while (!text.empty()) {
    const size_t next = text.find(kSpace, 1);
    const std::string_view word = text.substr(0, next);
    visit(word, segmentable_.find(word));
    text.remove_prefix(word.size());
  }
}

/// If no piece spans several words, words are encoded independently: sorting each word alone takes less time.
void SentencePieceModel::encode(std::string_view text, const Visit& visit) const {
  const std::string prepared = normalize(text);
  std::string_view unknown;  // adjacent unknown pieces that have not been visited yet
  const auto flush = [&] {
    if (!unknown.empty()) emit(unknown, kNone, visit);
    unknown = {};
  };
  const auto gather = [&](std::string_view piece, int32_t id) {
    if (id == kNone) {
      unknown = unknown.empty() ? piece : std::string_view(unknown.data(), unknown.size() + piece.size());
    } else {
      flush();
      visit(piece, id);
    }
  };
  switch (proto_.algorithm) {
    case Algorithm::unigram:
      for (const auto& [piece, id] : lattice_.best(prepared)) gather(piece, id);
      break;
    case Algorithm::bpe:
      SentencePieceBpe(*this).encode(prepared, gather);
      break;
    case Algorithm::word:
      encode_words(prepared, gather);
      break;
    case Algorithm::character:
      encode_characters(prepared, gather);
      break;
  }
  flush();
}

std::string SentencePieceModel::decode(std::span<const std::string> pieces) const {
  const bool drops_first = proto_.add_dummy_prefix || proto_.remove_extra_whitespaces;
  std::string out, bytes;
  bool at_begin = true;  // only dropped spaces so far
  const auto flush_bytes = [&] {
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t valid = valid_utf8_prefix(rest);
      out += valid > 0 ? rest.substr(0, valid) : "\ufffd";
      rest.remove_prefix(std::max<size_t>(valid, 1));
    }
    bytes.clear();
  };
  for (const std::string& piece : pieces) {
    if (const int byte = byte_of_token(piece); byte >= 0) {
      bytes += static_cast<char>(byte);
      at_begin = false;
      continue;
    }
    flush_bytes();
    const bool drops = at_begin && drops_first && piece.starts_with(kSpace);
    const std::string_view rest = std::string_view(piece).substr(drops ? kSpace.size() : 0);
    out += replaced(rest, kSpace, " ");
    at_begin = at_begin && rest.empty() && (!drops || proto_.remove_extra_whitespaces);
  }
  flush_bytes();
  return out;
}

}  // namespace attend::text
