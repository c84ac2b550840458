#pragma once

#include <cstddef>
#include <cstdint>

namespace attend::text {

/// The work that encoding or decoding one text may cost. The rules of a tokenizer come from files that are not trusted:
/// steps that double a text again and again, and regular expressions that backtrack without end, must end in an error.
/// Work is counted, not timed: a text passes on every machine, or on none.
class TextWork {
 public:
  /// For a text of this many bytes: all its pieces, through all steps.
  explicit TextWork(size_t text_bytes);

  /// Counts what a step wrote. Throws FormatError, which names the `part` ("normalizer"), once a text has become more
  /// than 64 times as long, or all steps together have written more than any real file makes them.
  void wrote(const char* part, size_t bytes);

  int64_t text_bytes() const { return text_bytes_; }
  /// Counts one search of a regular expression; false: the text has used up what it may cost.
  bool start_search();
  /// Counts one of ICU's ticks of 10,000 steps; false as above.
  bool spend_tick();

 private:
  int64_t text_bytes_;
  int64_t bytes_left_;
  int64_t steps_left_;  // of regular expressions
};

}  // namespace attend::text
