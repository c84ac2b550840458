#include "text/tokenizers/wordpiece.h"

#include <algorithm>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::text {

WordPiece::WordPiece(const Json& json)
    : prefix_(field<std::string>(json, "continuing_subword_prefix", "##")),
      longest_word_(field<int64_t>(json, "max_input_chars_per_word", 100)) {
  vocabulary_ = read_vocabulary(json);
  const auto unknown = field<std::string>(json, "unk_token", "[UNK]");
  unknown_ = vocabulary_.find(unknown);
  require<FormatError>(unknown_ != kNone, "the unknown token ", in_quotes(unknown), " is not in the vocabulary");
  for (int64_t id = 0; id < vocabulary_.size(); ++id) {
    longest_token_ = std::max(longest_token_, vocabulary_.token(id).size());
  }
}

void WordPiece::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto starts_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u; };
  const size_t first = ids.size();
  bool known = std::ranges::count_if(piece, starts_character) <= longest_word_;
  std::string token;
  for (size_t begin = 0; known && begin < piece.size();) {
    const std::string prefix = begin == 0 ? "" : prefix_;
    int32_t id = kNone;
    size_t end = std::min(piece.size(), begin + longest_token_);
    for (; end > begin && id == kNone; --end) {
      if (end < piece.size() && !starts_character(piece[end])) continue;
      token.assign(prefix).append(piece.substr(begin, end - begin));
      id = vocabulary_.find(token);
      if (id != kNone) break;
    }
    known = id != kNone;
    ids.push_back(id);
    begin = end;
  }
  if (known) return;
  ids.resize(first);
  ids.push_back(unknown_);
}

WordLevel::WordLevel(const Json& json) {
  vocabulary_ = read_vocabulary(json);
  unknown_ = vocabulary_.find(field<std::string>(json, "unk_token", "<unk>"));
}

void WordLevel::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_.find(piece);
  require<FormatError>(id != kNone || unknown_ != kNone, in_quotes(piece),
                       " is not in the vocabulary, which has no unknown token");
  ids.push_back(id != kNone ? id : unknown_);
}

}  // namespace attend::text
