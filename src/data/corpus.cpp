#include "attend/data/corpus.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "attend/base/error.h"
#include "attend/data/lines.h"
#include "attend/text/utf8.h"
#include "io/printable.h"

namespace attend {
namespace {

constexpr size_t kPiece = size_t{1} << 14;
constexpr std::array<std::pair<std::string_view, CorpusKind>, 4> kKinds{{{"pairs", CorpusKind::pairs},
                                                                         {"tsv", CorpusKind::tsv},
                                                                         {"labelled", CorpusKind::labelled},
                                                                         {"text", CorpusKind::text}}};

std::string without_blanks_around(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

void check(const Corpus& corpus) {
  require<ShapeError>(!corpus.files.empty(), "corpus: expected at least one file");
  const size_t targets = corpus.kind == CorpusKind::pairs ? corpus.files.size() : 0;
  require<ShapeError>(corpus.targets.size() == targets, "corpus: expected ", targets, " target files for ",
                      corpus.files.size(), " source files, got ", corpus.targets.size());
  const auto standard_inputs =
      std::ranges::count(corpus.files, std::string("-")) + std::ranges::count(corpus.targets, std::string("-"));
  require<ShapeError>(standard_inputs <= 1, "corpus: standard input ('-') can be read only once, got it ",
                      standard_inputs, " times");
}

}  // namespace

CorpusKind corpus_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &std::pair<std::string_view, CorpusKind>::first);
  require<Error>(found != kKinds.end(), "corpus: expected pairs, tsv, labelled or text, got ", in_quotes(name));
  return found->second;
}

struct CorpusReader::State {
  explicit State(Corpus given) : corpus(std::move(given)) {
    check(corpus);
    open();
  }

  void open() {
    const LineOptions options{.lossy = corpus.lossy};
    source.emplace(corpus.files[file], options);
    if (corpus.kind == CorpusKind::pairs) target.emplace(corpus.targets[file], options);
    before = counts;
  }

  /// Returns false at the end of the file. One side of the example may be blank.
  bool read(Example& example) {
    switch (corpus.kind) {
      case CorpusKind::pairs:
        return read_pair(example);
      case CorpusKind::text:
        example.target.clear();
        return corpus.whole_text ? read_piece(example.source) : source->next(example.source);
      case CorpusKind::tsv:
      case CorpusKind::labelled:
        return read_columns(example);
    }
    return false;
  }

  bool read_pair(Example& example) {
    const bool has_source = source->next(example.source), has_target = target->next(example.target);
    if (has_source == has_target) return has_source;
    while (source->skip()) {
    }
    while (target->skip()) {
    }
    throw FormatError(source->name() + " has " + std::to_string(source->lines()) + " lines but " + target->name() +
                      " has " + std::to_string(target->lines()) + ": aligned files must have the same number of lines");
  }

  bool read_columns(Example& example) {
    if (!source->next(line)) return false;
    example = {};
    if (is_blank(line)) return true;
    const size_t tab = line.find('\t');
    const bool labelled = corpus.kind == CorpusKind::labelled;
    require<FormatError>(tab != std::string::npos, source->name(), ':', source->lines(), ": expected ",
                         labelled ? "label TAB text" : "source TAB target", ", got no tab in ", in_quotes(line));
    if (labelled) {
      example.target = without_blanks_around(std::string_view(line).substr(0, tab));
      example.source = line.substr(tab + 1);
    } else {
      example.source = line.substr(0, tab);
      example.target = line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1);
    }
    return true;
  }

  bool read_piece(std::string& piece) {
    piece.clear();
    while (piece.size() < kPiece && source->next(line)) {
      piece += line;
      if (source->ended_with_line_feed()) piece += '\n';
    }
    return !piece.empty();
  }

  bool has_blank_side(const Example& example) const {
    if (corpus.kind == CorpusKind::text) return !corpus.whole_text && is_blank(example.source);
    if (corpus.keep_blank) return false;
    return is_blank(example.source) || is_blank(example.target);
  }

  void count(bool is_example) {
    ++(is_example ? counts.examples : counts.dropped);
    counts.lines = before.lines + source->lines();
    counts.replaced = before.replaced + source->replaced() + (target ? target->replaced() : 0);
  }

  bool next_file() {
    const int64_t lines = source->lines();
    require<FormatError>(lines > 0, source->name(), ": is empty");
    require<FormatError>(counts.examples > before.examples, source->name(), ": no example: all ", lines,
                         " lines have a blank side");
    if (file + 1 == corpus.files.size()) return false;
    ++file;
    open();
    return true;
  }

  Corpus corpus;
  size_t file = 0;
  std::optional<LineReader> source, target;
  std::string line;
  CorpusCounts counts, before;  // `before`: at the start of the current file
};

CorpusReader::CorpusReader(Corpus corpus) : state_(std::make_unique<State>(std::move(corpus))) {}
CorpusReader::~CorpusReader() = default;
CorpusReader::CorpusReader(CorpusReader&&) noexcept = default;
CorpusReader& CorpusReader::operator=(CorpusReader&&) noexcept = default;

bool CorpusReader::next(Example& example) {
  do {
    while (state_->read(example)) {
      const bool is_example = !state_->has_blank_side(example);
      state_->count(is_example);
      if (is_example) return true;
    }
  } while (state_->next_file());
  return false;
}

const CorpusCounts& CorpusReader::counts() const { return state_->counts; }

}  // namespace attend
