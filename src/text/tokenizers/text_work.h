#pragma once

#include <cstddef>
#include <cstdint>

namespace attend::text {

/// Limits the work of encoding or decoding one text. The rules of a tokenizer come from untrusted files. Steps that
/// repeatedly double a text, and regular expressions that backtrack endlessly, must end in an error. Work is counted,
/// not timed, so that a text passes either on every machine or on none.
class TextWork {
 public:
  /// The limits for a text of this many bytes, for all its pieces and all steps together.
  explicit TextWork(size_t text_bytes);

  /// Counts the bytes that a step wrote. Throws FormatError, which names the `part` ("normalizer"), if a text has grown
  /// to more than 64 times its length, or if all steps together have written more than with any real file.
  void wrote(const char* part, size_t bytes);

  int64_t text_bytes() const { return text_bytes_; }
  /// Counts one search of a regular expression. Returns false if the text has used up its limit.
  bool start_search();
  /// Counts one of ICU's ticks of 10,000 steps. Returns false as start_search() does.
  bool spend_tick();

 private:
  int64_t text_bytes_;
  int64_t bytes_left_;
  int64_t steps_left_;  // of regular expressions
};

}  // namespace attend::text
