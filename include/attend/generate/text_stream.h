#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

/// Turns ids that come one by one into text that can be shown at once. A character whose bytes are spread over several
/// tokens, as Chinese often is, is given when it is whole. All pieces joined are what decode gives for all the ids,
/// unless bytes that never become a character make it take back whole ones before them; each piece is UTF-8.
class TextStream {
 public:
  /// `before` is what the text goes on from: it decides about a blank in front, but is not given again. The tokenizer
  /// must outlive this.
  explicit TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before = {});

  std::string push(int32_t id);
  /// What is still held back, with U+FFFD for bytes that never became a character.
  std::string finish();

 private:
  std::string grown(bool is_last);
  void keep_few(const std::string& text);

  const Tokenizer* tokenizer_;
  std::vector<int32_t> ids_;  // the last few that were shown, and all that were not
  size_t shown_ = 0;          // bytes of their text
  size_t kept_ = 0;           // ids that were there when all was shown
};

/// Watches text for strings that end it. What may be the beginning of one is held back until that is known.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);

  /// The text that can be shown now.
  std::string push(std::string_view piece);
  /// What was held back.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace attend
