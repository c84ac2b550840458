#include "text/tokenizers/bpe.h"

#include <algorithm>
#include <queue>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/tokenizers/byte_level.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr size_t kFew = 48;  // up to this many symbols, scanning all pairs is faster than a heap
constexpr size_t kMostMerges = 8'000'000;

uint32_t rank_of(uint64_t merge) { return static_cast<uint32_t>(merge >> 32); }
int32_t id_of(uint64_t merge) { return static_cast<int32_t>(merge & 0xffffffffu); }

/// Two adjacent symbols that can be joined. Best first: lowest rank, then leftmost.
struct Candidate {
  uint64_t merge = 0;
  uint32_t left = 0;
  int32_t left_id = 0, right_id = 0;  // a candidate is stale once either has changed
  bool operator<(const Candidate& other) const {
    return rank_of(merge) != rank_of(other.merge) ? rank_of(merge) > rank_of(other.merge) : left > other.left;
  }
};

std::pair<std::string, std::string> pair_of(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  require<FormatError>(merge.is_string(), "a merge must be a string or a pair of strings, got ", merge.type_name());
  const auto& text = merge.string();
  const size_t blank = text.find(' ');
  require<FormatError>(blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos,
                       "expected a merge of two tokens, got ", in_quotes(text));
  return {text.substr(0, blank), text.substr(blank + 1)};
}

}  // namespace

Bpe::Bpe(const Json& json, bool raw_bytes)
    : raw_bytes_(raw_bytes),
      byte_fallback_(field(json, "byte_fallback", false)),
      fuse_unknown_(field(json, "fuse_unk", false)),
      ignore_merges_(field(json, "ignore_merges", false)),
      prefix_(field<std::string>(json, "continuing_subword_prefix", "")),
      suffix_(field<std::string>(json, "end_of_word_suffix", "")) {
  vocabulary_ = read_vocabulary(json);
  const auto unknown = field<std::string>(json, "unk_token", "");
  if (!unknown.empty()) unknown_ = vocabulary_.find(unknown);
  if (raw_bytes_) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_[static_cast<size_t>(byte)] = vocabulary_.find(byte_spelling(static_cast<unsigned char>(byte)));
    }
  } else {
    std::ranges::copy(byte_fallback_ids(vocabulary_), byte_ids_.begin());
  }
  read_merges(required(json, "merges"));
  find_whole_pieces();
}

void Bpe::read_merges(const Json& merges) {
  require<FormatError>(merges.is_array(), "\"merges\" must be a list, got ", merges.type_name());
  require<FormatError>(merges.size() <= kMostMerges, "expected at most ", kMostMerges, " merges, got ", merges.size());
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (const Json& merge : merges) {
    const auto [left, right] = pair_of(merge);
    add_merge(left, right, rank++);
  }
}

void Bpe::add_merge(const std::string& left, const std::string& right, uint32_t rank) {
  const int32_t left_id = vocabulary_.find(left), right_id = vocabulary_.find(right);
  const size_t dropped = right.starts_with(prefix_) ? prefix_.size() : 0;
  const int32_t joined = vocabulary_.find(left + right.substr(dropped));
  require<FormatError>(left_id != kNone && right_id != kNone && joined != kNone, "the merge of ", in_quotes(left),
                       " and ", in_quotes(right), " needs a token that is not in the vocabulary");
  const auto key = [](int32_t id) { return static_cast<uint32_t>(id); };
  merges_.set(key(left_id), key(right_id), uint64_t{rank} << 32 | key(joined));
}

/// Finds the tokens that BPE produces from their own text. A piece that is a token need not be encoded as that token:
/// its merges may lead elsewhere. Encoding each token once, here, turns the encoding of most words into one look-up,
/// and the table never changes afterwards.
void Bpe::find_whole_pieces() {
  if (!prefix_.empty() || !suffix_.empty()) return;
  std::vector<int32_t> symbols;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    const auto bytes = raw_bytes_ ? bytes_of_spelling(token) : token;
    if (token.empty() || !bytes) continue;
    symbols.clear();
    if (!ignore_merges_) {
      append_characters(*bytes, symbols);
      merge(symbols, 0);
    }
    const bool is_whole = symbols.size() == 1 && symbols[0] == id;
    if (ignore_merges_ || is_whole) whole_pieces_.set(*bytes, vocabulary_.find(token));
  }
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const int32_t whole = whole_pieces_.find(piece); whole != kNone) {
    ids.push_back(whole);
    return;
  }
  const size_t begin = ids.size();
  append_characters(piece, ids);
  merge(ids, begin);
}

int32_t Bpe::find_character(std::string_view character, bool is_first, bool is_last) const {
  if (prefix_.empty() && suffix_.empty()) {
    return raw_bytes_ ? byte_ids_[static_cast<unsigned char>(character[0])] : vocabulary_.find(character);
  }
  std::string token;
  if (!is_first) token += prefix_;
  token += raw_bytes_ ? spelled_bytes(character) : std::string(character);
  if (is_last) token += suffix_;
  return vocabulary_.find(token);
}

bool Bpe::append_bytes(std::string_view character, std::vector<int32_t>& symbols) const {
  const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(character, [&](char byte) { return id(byte) != kNone; })) return false;
  for (const char byte : character) symbols.push_back(id(byte));
  return true;
}

void Bpe::append_characters(std::string_view piece, std::vector<int32_t>& symbols) const {
  bool pending = false;  // an unknown character, which the next one may join
  for (size_t at = 0; at < piece.size();) {
    const size_t length = raw_bytes_ ? 1 : utf8_length(piece[at]);
    const std::string_view character = piece.substr(at, length);
    const int32_t id = find_character(character, at == 0, at + length == piece.size());
    at += length;
    if (id != kNone) {
      if (pending) symbols.push_back(unknown_);
      pending = false;
      symbols.push_back(id);
    } else if (!byte_fallback_ || raw_bytes_ || !append_bytes(character, symbols)) {
      if (pending && !fuse_unknown_) symbols.push_back(unknown_);
      pending = unknown_ != kNone;  // without an unknown token, unknown characters are dropped
    }
  }
  if (pending) symbols.push_back(unknown_);
}

void Bpe::merge(std::vector<int32_t>& symbols, size_t begin) const {
  const size_t count = symbols.size() - begin;
  if (count < 2 || merges_.empty()) return;
  int32_t* first = symbols.data() + begin;
  symbols.resize(begin + (count <= kFew ? merge_few(first, count) : merge_many(first, count)));
}

size_t Bpe::merge_few(int32_t* symbols, size_t count) const {
  std::array<uint64_t, kFew> merges;  // of symbols i and i + 1
  const auto look_up = [&](size_t i) {
    merges[i] = merges_.find(static_cast<uint32_t>(symbols[i]), static_cast<uint32_t>(symbols[i + 1]));
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (rank_of(merges[i]) < rank_of(merges[best])) best = i;
    }
    if (merges[best] == PairTable::kAbsent) break;
    symbols[best] = id_of(merges[best]);
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    if (best + 2 < count) std::copy(&merges[best + 2], &merges[count - 1], &merges[best + 1]);
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  return count;
}

/// Uses a heap of candidates and a linked list of symbols: a megabyte without a space takes n log n steps, not n².
size_t Bpe::merge_many(int32_t* symbols, size_t count) const {
  constexpr uint32_t kEnd = 0xffffffffu;
  constexpr int32_t kGone = -2;
  std::vector<uint32_t> next(count), previous(count);
  std::priority_queue<Candidate> heap;
  const auto consider = [&](uint32_t left) {
    if (next[left] == kEnd) return;
    const int32_t a = symbols[left], b = symbols[next[left]];
    const uint64_t found = merges_.find(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
    if (found != PairTable::kAbsent) heap.push({found, left, a, b});
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? kEnd : i - 1;
    next[i] = i + 1 == count ? kEnd : i + 1;
  }
  for (uint32_t i = 0; i < count; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    const uint32_t left = best.left, right = next[left];
    if (symbols[left] != best.left_id || right == kEnd || symbols[right] != best.right_id) continue;
    symbols[left] = id_of(best.merge);
    symbols[right] = kGone;
    next[left] = next[right];
    if (next[left] != kEnd) previous[next[left]] = left;
    if (previous[left] != kEnd) consider(previous[left]);
    consider(left);
  }
  return static_cast<size_t>(std::remove(symbols, symbols + count, kGone) - symbols);
}

}  // namespace attend::text
