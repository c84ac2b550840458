#pragma once

#include <array>
#include <string>

#include "text/tokenizers/subword_model.h"

namespace attend::text {

/// Byte-pair encoding (Sennrich et al. 2016). A piece starts as single characters (or bytes). The pair that was learnt
/// first is joined repeatedly, the leftmost occurrence first.
class Bpe final : public SubwordModel {
 public:
  Bpe(const Json& json, bool raw_bytes);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  void read_merges(const Json& merges);
  void add_merge(const std::string& left, const std::string& right, uint32_t rank);
  void find_whole_pieces();

  /// Appends the ids of the characters, before merging.
  void append_characters(std::string_view piece, std::vector<int32_t>& symbols) const;
  bool append_bytes(std::string_view character, std::vector<int32_t>& symbols) const;
  int32_t find_character(std::string_view character, bool is_first, bool is_last) const;
  void merge(std::vector<int32_t>& symbols, size_t begin) const;
  size_t merge_few(int32_t* symbols, size_t count) const;
  size_t merge_many(int32_t* symbols, size_t count) const;

  bool raw_bytes_ = false, byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  std::string prefix_, suffix_;        // prefix of characters that do not begin a word; suffix of the last character
  PairTable merges_;                   // rank << 32 | id of the joined pair
  StringTable whole_pieces_;           // pieces that are encoded as one token, as most words of a text are
  std::array<int32_t, 256> byte_ids_;  // with raw bytes: the token of each byte; otherwise the ids of <0x00> …
};

}  // namespace attend::text
