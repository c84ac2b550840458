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
/// The kind with this name. Throws an Error that lists the kinds if the name is unknown.
CorpusKind corpus_kind(std::string_view name);

/// The files of a corpus, read in order. Each file may be compressed with gzip. One file may be `-`, the standard
/// input.
struct Corpus {
  CorpusKind kind = CorpusKind::text;
  std::vector<std::string> files;
  std::vector<std::string> targets;  ///< pairs: targets[i] is aligned with files[i]
  bool lossy = false;                ///< replace invalid UTF-8 by U+FFFD instead of throwing
  bool whole_text = false;           ///< text: keep line breaks and blank lines, see CorpusReader
  bool keep_blank = false;           ///< pairs: return pairs with a blank side too, so that lines stay aligned
};

/// An input of a model and the expected output.
struct Example {
  std::string source;  ///< the sentence to translate, the text to classify, or the plain text
  std::string target;  ///< the translation or the label, without surrounding white space; empty for plain text
};

struct CorpusCounts {
  int64_t lines = 0;     ///< lines read of the source files
  int64_t examples = 0;  ///< examples returned
  int64_t dropped = 0;   ///< lines dropped because a side is blank
  int64_t replaced = 0;  ///< U+FFFD inserted for invalid UTF-8
};

/// Reads the examples of a corpus one by one. It never holds more than one example in memory.
///
/// An example of plain text is a line. With `whole_text` it is a piece of about 16 KiB that ends at the end of a line.
/// The concatenated pieces of a file are the file (with LF for CR LF), and no piece spans two files.
class CorpusReader {
 public:
  /// Throws ShapeError if the corpus has no files, or pairs do not have one target for each file. Throws FormatError if
  /// a file cannot be opened.
  explicit CorpusReader(Corpus corpus);
  ~CorpusReader();
  CorpusReader(CorpusReader&&) noexcept;
  CorpusReader& operator=(CorpusReader&&) noexcept;

  /// Reads the next example; returns false at the end. Throws FormatError for invalid UTF-8, a missing tab, aligned
  /// files with different numbers of lines, or a file without examples.
  bool next(Example& example);
  const CorpusCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
