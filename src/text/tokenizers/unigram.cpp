#include "text/tokenizers/unigram.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr double kUnknownPenalty = 10;  // subtracted from the score of the least likely token

template <class Score>
struct Node {
  Score score = 0;
  uint32_t begin = 0;
  int32_t id = kNone;
  bool reached = false;
};

}  // namespace

template <class Score>
void UnigramLattice<Score>::set(std::string_view token, int32_t id, Score score) {
  if (static_cast<size_t>(id) >= scores_.size()) scores_.resize(static_cast<size_t>(id) + 1);
  scores_[static_cast<size_t>(id)] = score;
  trie_.add(token, id);
}

template <class Score>
void UnigramLattice<Score>::add(std::string_view token, int32_t id, Score score) {
  smallest_ = std::min(smallest_, score);
  largest_ = std::max(largest_, score);
  set(token, id, score);
}

template <class Score>
void UnigramLattice<Score>::add_preferred(std::string_view token, int32_t id) {
  set(token, id, std::numeric_limits<Score>::quiet_NaN());
}

template <class Score>
Score UnigramLattice<Score>::score_of(int32_t id, size_t length) const {
  const Score score = scores_[static_cast<size_t>(id)];
  return std::isnan(score) ? static_cast<Score>(static_cast<Score>(length) * largest_ - 0.1) : score;
}

template <class Score>
std::vector<typename UnigramLattice<Score>::Part> UnigramLattice<Score>::best(std::string_view text) const {
  std::vector<Node<Score>> nodes(text.size() + 1);  // nodes[i]: the best way to cover the first i bytes
  nodes[0].reached = true;
  const auto offer = [&](size_t begin, size_t end, int32_t id, Score score) {
    const Score total = nodes[begin].score + score;
    Node<Score>& node = nodes[end];
    if (!node.reached || total > node.score) node = {total, static_cast<uint32_t>(begin), id, true};
  };
  const Score unknown = (std::isinf(smallest_) ? 0 : smallest_) - static_cast<Score>(kUnknownPenalty);
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text[at]);
    bool single = false;
    trie_.for_each_prefix(text.substr(at), [&](size_t bytes, int32_t id) {
      offer(at, at + bytes, id, score_of(id, bytes));
      single = single || bytes == length;
    });
    if (!single) offer(at, at + length, kNone, unknown);
    at += length;
  }
  std::vector<Part> parts;  // in reverse order
  for (size_t end = text.size(); end > 0; end = nodes[end].begin) {
    const size_t begin = nodes[end].begin;
    const bool joins = nodes[end].id == kNone && !parts.empty() && parts.back().id == kNone;
    const size_t length = end - begin + (joins ? parts.back().text.size() : 0);
    if (joins) parts.pop_back();
    parts.push_back({text.substr(begin, length), nodes[end].id});
  }
  std::ranges::reverse(parts);
  return parts;
}

template class UnigramLattice<float>;
template class UnigramLattice<double>;

Unigram::Unigram(const Json& json) {
  const Json& list = required(json, "vocab");
  require<FormatError>(list.is_array(), "\"vocab\" of a Unigram model must be a list, got ", list.type_name());
  const auto unknown = field<int64_t>(json, "unk_id", kNone);
  require<FormatError>(unknown >= kNone && unknown < static_cast<int64_t>(list.size()), "unk_id ", unknown,
                       " is not in a vocabulary of ", list.size());
  unknown_ = static_cast<int32_t>(unknown);
  for (int64_t id = 0; id < static_cast<int64_t>(list.size()); ++id) {
    const Json& entry = list[static_cast<size_t>(id)];
    const bool fits = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    require<FormatError>(fits, "token ", id, " of a Unigram model must be a string and a number");
    const auto& token = entry[0].string();
    const double score = entry[1].get<double>();
    require<FormatError>(std::isfinite(score), "the score of token ", id, " is not finite");
    vocabulary_.add(token, id);
    lattice_.add(token, static_cast<int32_t>(id), score);
  }
  if (field(json, "byte_fallback", false)) byte_ids_ = byte_fallback_ids(vocabulary_);
}

void Unigram::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  for (const auto& [part, id] : lattice_.best(piece)) {
    const bool as_bytes =
        id == kNone && !byte_ids_.empty() && std::ranges::all_of(part, [&](char byte) { return id_of(byte) != kNone; });
    if (as_bytes) {
      for (const char byte : part) ids.push_back(id_of(byte));
    } else {
      require<FormatError>(id != kNone || unknown_ != kNone,
                           "a character is not in the vocabulary, and unk_id is null");
      ids.push_back(id != kNone ? id : unknown_);
    }
  }
}

}  // namespace attend::text
