#pragma once

#include <string>
#include <vector>

#include "attend/base/error.h"
#include "attend/text/tokenizer.h"
#include "attend/text/utf8.h"

namespace attend::testing {

/// The simplest possible tokenizer: five special tokens, then the bytes from `first` on. A Chinese character is three
/// tokens.
class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(int64_t bytes = 256, int first = 0) : bytes_(bytes), first_(first) {}

  std::vector<int32_t> encode(std::string_view text, bool) const override {
    require<FormatError>(is_utf8(text), "text: expected UTF-8");
    std::vector<int32_t> ids;
    for (const unsigned char byte : text) {
      const bool known = byte >= first_ && byte < first_ + bytes_;
      ids.push_back(known ? 5 + byte - first_ : special_.unknown);
    }
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string bytes;
    for (const int32_t id : ids) {
      if (id >= 5) bytes.push_back(static_cast<char>(id - 5 + first_));
    }
    return repair_utf8(bytes).text;
  }
  int64_t size() const override { return 5 + bytes_; }
  std::string token(int32_t id) const override { return std::to_string(id); }
  std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
  const SpecialTokens& special() const override { return special_; }
  void save(const std::string&) const override {}

 private:
  int64_t bytes_;
  int first_;
  SpecialTokens special_{.pad = 0, .unknown = 1, .begin = 2, .end = 3, .mask = 4};
};

}  // namespace attend::testing
