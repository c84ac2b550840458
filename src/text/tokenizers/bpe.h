#pragma once

#include <array>
#include <string>

#include "text/tokenizers/subword_model.h"

namespace attend::text {

/// Byte-pair encoding (Sennrich et al. 2016): a piece starts as single characters (or bytes), and the pair that was
/// learnt first is joined again and again, the leftmost of equals first.
class Bpe final : public SubwordModel {
 public:
  Bpe(const Json& json, bool raw_bytes);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  void read_merges(const Json& merges);
  void add_merge(const std::string& left, const std::string& right, uint32_t rank);
  void find_whole_pieces();

  /// Appends the characters' ids, to be merged.
  void append_characters(std::string_view piece, std::vector<int32_t>& symbols) const;
  bool append_bytes(std::string_view character, std::vector<int32_t>& symbols) const;
  int32_t find_character(std::string_view character, bool is_first, bool is_last) const;
  void merge(std::vector<int32_t>& symbols, size_t begin) const;
  size_t merge_few(int32_t* symbols, size_t count) const;
  size_t merge_many(int32_t* symbols, size_t count) const;

  bool raw_bytes_ = false, byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  std::string prefix_, suffix_;        // of characters that do not begin a word; of the one that ends it
  PairTable merges_;                   // rank << 32 | id of the pair joined
  StringTable whole_pieces_;           // pieces that end as one token, which most words of a text do
  std::array<int32_t, 256> byte_ids_;  // raw bytes: the token of each; else of <0x00> …
};

}  // namespace attend::text
