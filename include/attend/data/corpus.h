#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

enum class CorpusKind {
  pairs,     ///< two files, aligned line by line
  tsv,       ///< source TAB target; further columns are ignored
  labelled,  ///< label TAB text
  text       ///< plain text
};
/// Throws Error that lists the kinds for a name that is none of them.
CorpusKind corpus_kind(std::string_view name);

/// Where examples come from. Several files are read one after the other; each may be packed by gzip, and one may be
/// `-`.
struct Corpus {
  CorpusKind kind = CorpusKind::text;
  std::vector<std::string> files;
  std::vector<std::string> targets;  ///< of pairs: targets[i] goes with files[i]
  bool lossy = false;                ///< replace what is not UTF-8 instead of throwing
  bool whole_text = false;           ///< of text: keep line breaks and blank lines, see CorpusReader
  bool keep_blank = false;           ///< of pairs: give out those with a blank side too, so that lines stay aligned
};

/// What a model reads, and what it should answer.
struct Example {
  std::string source;  ///< the sentence to translate, the text to classify, the line of plain text
  std::string target;  ///< its translation or its label (without blanks around it); empty for plain text
};

struct CorpusCounts {
  int64_t lines = 0;     ///< of the source side
  int64_t examples = 0;  ///< given out
  int64_t dropped = 0;   ///< lines with a blank side
  int64_t replaced = 0;  ///< U+FFFD put in for what was not UTF-8
};

/// Gives the examples of a corpus one by one; it never holds more than one.
///
/// Of plain text an example is a line. With `whole_text` it is a piece of some 16 KiB that ends at the end of a line:
/// the pieces of a file joined are the file (with LF for CR LF), and no piece spans two files.
class CorpusReader {
 public:
  /// Throws ShapeError if the corpus names no file or not one target for each, FormatError if one cannot be opened.
  explicit CorpusReader(Corpus corpus);
  ~CorpusReader();
  CorpusReader(CorpusReader&&) noexcept;
  CorpusReader& operator=(CorpusReader&&) noexcept;

  /// The next example; false at the end. Throws FormatError for what is not UTF-8, for a line without the tab it should
  /// have, for aligned files of unequal length (with both counts), and for a file without any example.
  bool next(Example& example);
  const CorpusCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
