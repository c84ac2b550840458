#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

/// Decodes ids one by one into text that can be displayed immediately. A character whose bytes are spread over several
/// tokens, as is common in Chinese, is returned when it is complete. Each piece is valid UTF-8. The concatenated pieces
/// equal decode() of all ids, unless incomplete bytes make decode() change whole characters before them.
class TextStream {
 public:
  /// `before` is the prompt that the text continues. It decides whether the text starts with a space, but is not
  /// returned. The tokenizer must outlive this object.
  explicit TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before = {});

  /// Adds an id and returns the new text; empty if no character is complete.
  std::string push(int32_t id);
  /// The text of the remaining ids, with U+FFFD for incomplete characters.
  std::string finish();

 private:
  std::string grown(bool is_last);
  void keep_few(const std::string& text);

  const Tokenizer* tokenizer_;
  std::vector<int32_t> ids_;  // the last few ids whose text was returned, and all ids after them
  size_t shown_ = 0;          // number of bytes of their text that were returned
  size_t kept_ = 0;           // number of ids when all text was last returned
};

/// Ends a text before the first stop string. Text that may be the start of a stop string is held back until it is
/// known.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);

  /// Adds a piece and returns the text that can be displayed.
  std::string push(std::string_view piece);
  /// The text that is still held back.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace attend
