#include "attend/data/corpus.h"

#include "attend/base/random.h"
#include "attend/text/utf8.h"
#include "data_testing.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Files {
  std::string write(const std::string& name, std::string_view bytes) const {
    testing::write_file(folder.file(name), bytes);
    return folder.file(name);
  }
  TemporaryFolder folder;
};

struct Read {
  Pairs examples;
  CorpusCounts counts;
};

Read read(const Corpus& corpus) {
  CorpusReader reader(corpus);
  Read result;
  for (Example example; reader.next(example);) result.examples.emplace_back(example.source, example.target);
  result.counts = reader.counts();
  return result;
}

TEST(Corpus, PairsOfAlignedFiles) {
  const Files files;
  const Corpus corpus{.kind = CorpusKind::pairs,
                      .files = {files.write("en", "a b\n\nc\nd"), files.write("en2", "e\n")},
                      .targets = {files.write("de", "A B\r\nleer\r\n \u3000\r\nD\r\n"), files.write("de2", "E")}};
  const Read result = read(corpus);
  EXPECT_EQ(result.examples, (Pairs{{"a b", "A B"}, {"d", "D"}, {"e", "E"}}));
  EXPECT_EQ(result.counts.lines, 5);
  EXPECT_EQ(result.counts.examples, 3);
  EXPECT_EQ(result.counts.dropped, 2);
  Corpus all = corpus;
  all.keep_blank = true;
  EXPECT_EQ(read(all).examples, (Pairs{{"a b", "A B"}, {"", "leer"}, {"c", " \u3000"}, {"d", "D"}, {"e", "E"}}));
}

TEST(Corpus, UnequalFilesAreRefusedWithBothCounts) {
  const Files files;
  const std::string three = files.write("three", "1\n2\n3\n"), five = files.write("five", "1\n2\n3\n4\n\xff\n");
  expect_error<FormatError>(
      [&] { read({.kind = CorpusKind::pairs, .files = {three}, .targets = {five}}); },
      three + " has 3 lines but " + five + " has 5: aligned files must have the same number of lines");
  expect_error<FormatError>(
      [&] { read({.kind = CorpusKind::pairs, .files = {five}, .targets = {three}, .lossy = true}); },
      five + " has 5 lines but " + three + " has 3: aligned files must have the same number of lines");
}

TEST(Corpus, ColumnsOfATable) {
  const Files files;
  const std::string path = files.write("tsv", "\ufeffHi.\t嗨。\tCC-BY\n\nRun!\t\tx\nStop.\t停。\n");
  const Read result = read({.kind = CorpusKind::tsv, .files = {path}});
  EXPECT_EQ(result.examples, (Pairs{{"Hi.", "嗨。"}, {"Stop.", "停。"}}));
  EXPECT_EQ(result.counts.dropped, 2);
  const std::string bad = files.write("bad", "a\tb\nno tab\n");
  expect_error<FormatError>([&] { read({.kind = CorpusKind::tsv, .files = {bad}}); },
                            bad + ":2: expected source TAB target, got no tab in 'no tab'");
}

TEST(Corpus, LabelsComeFirst) {
  const Files files;
  const std::string path = files.write("labelled", " good \tI like it.\tReally.\nbad\t讨厌\n\tnone\n");
  const Read result = read({.kind = CorpusKind::labelled, .files = {path}});
  EXPECT_EQ(result.examples, (Pairs{{"I like it.\tReally.", "good"}, {"讨厌", "bad"}}));
  EXPECT_EQ(result.counts.dropped, 1);
}

TEST(Corpus, TextByLineOrWhole) {
  const Files files;
  const std::string one = files.write("one", "a\r\n\r\nb\r\n"), two = files.write("two", "c\n\nd");
  const Read lines = read({.files = {one, two}});
  EXPECT_EQ(lines.examples, (Pairs{{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}}));
  EXPECT_EQ(lines.counts.dropped, 2);
  const Read whole = read({.files = {one, two}, .whole_text = true});
  EXPECT_EQ(whole.examples, (Pairs{{"a\n\nb\n", ""}, {"c\n\nd", ""}}));
  EXPECT_EQ(whole.counts.dropped, 0);
  EXPECT_EQ(whole.counts.lines, 6);
}

TEST(Corpus, PiecesOfALongTextJoinToTheFile) {
  const Files files;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::string(static_cast<size_t>(i % 97), 'x') + (i % 7 ? "\n" : "\n\n");
  const Read result = read({.files = {files.write("long", text)}, .whole_text = true});
  EXPECT_GT(result.examples.size(), 5u);
  std::string joined;
  for (const auto& [piece, none] : result.examples) {
    EXPECT_TRUE(piece.ends_with('\n'));
    EXPECT_LT(piece.size(), 20000u);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
}

TEST(Corpus, LossyCountsBothSides) {
  const Files files;
  const Corpus corpus{.kind = CorpusKind::pairs,
                      .files = {files.write("a", "x\xff\ny\n")},
                      .targets = {files.write("b", "\xfe\xfe\nz\n")},
                      .lossy = true};
  const Read result = read(corpus);
  EXPECT_EQ(result.examples, (Pairs{{"x�", "��"}, {"y", "z"}}));
  EXPECT_EQ(result.counts.replaced, 3);
}

TEST(Corpus, AnEmptyFileIsAnError) {
  const Files files;
  const std::string empty = files.write("empty", ""), blank = files.write("blank", "\n \n"),
                    text = files.write("t", "a\n");
  expect_error<FormatError>([&] { read({.files = {empty}}); }, empty + ": is empty");
  expect_error<FormatError>([&] { read({.files = {text, empty}}); }, empty + ": is empty");
  expect_error<FormatError>([&] { read({.files = {blank}}); }, blank + ": no example: all 2 lines have a blank side");
  expect_error<FormatError>([&] { read({.kind = CorpusKind::pairs, .files = {empty}, .targets = {empty}}); },
                            empty + ": is empty");
}

TEST(Corpus, RefusesInvalidCombinations) {
  expect_error<ShapeError>([] { read({}); }, "corpus: expected at least one file");
  expect_error<ShapeError>([] { read({.kind = CorpusKind::pairs, .files = {"a"}}); },
                           "corpus: expected 1 target files for 1 source files, got 0");
  expect_error<ShapeError>([] { read({.kind = CorpusKind::pairs, .files = {"-"}, .targets = {"-"}}); },
                           "corpus: standard input ('-') can be read only once, got it 2 times");
  EXPECT_EQ(corpus_kind("labelled"), CorpusKind::labelled);
  expect_error<Error>([] { corpus_kind("xml"); }, "corpus: expected pairs, tsv, labelled or text, got 'xml'");
}

/// For any bytes, a corpus either gives UTF-8 examples or throws FormatError.
TEST(Corpus, AnyBytesAreReadOrRefused) {
  const Files files;
  const std::string_view pieces[] = {"a",        "\t",     "\n",       "\r\n", "\xff", "今",
                                     "\xe4\xbb", "\ufeff", "\x1f\x8b", " ",    "\0"};
  const auto random_text = [&](uint64_t number) {
    std::string text;
    for (uint64_t i = 0; i < number % 40; ++i) text += pieces[philox(number, i, 0)[0] % std::size(pieces)];
    return text;
  };
  int refused = 0, examples = 0;
  for (uint64_t number = 0; number < 2000; ++number) {
    Corpus corpus{.kind = static_cast<CorpusKind>(number % 4),
                  .files = {files.write("a", random_text(number))},
                  .lossy = number % 3 != 0,
                  .whole_text = number % 5 == 0};
    if (corpus.kind == CorpusKind::pairs) corpus.targets = {files.write("b", random_text(number + 40))};
    try {
      for (const auto& [source, target] : read(corpus).examples) {
        EXPECT_TRUE(is_utf8(source) && is_utf8(target));
        ++examples;
      }
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(examples, 1000);
}

TEST(Corpus, RealPairs) {
  const std::string path = std::string(ATTEND_SOURCE_DIR) + "/../shared/data/corpora/tatoeba-en-zh/cmn.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Read result = read({.kind = CorpusKind::tsv, .files = {path}});
  EXPECT_EQ(result.counts.lines, 29156);
  EXPECT_EQ(result.counts.examples, 29155);
  EXPECT_EQ(result.counts.dropped, 1) << "it ends with a blank line";
  EXPECT_EQ(result.examples[0], (std::pair<std::string, std::string>{"Hi.", "嗨。"}));
}

}  // namespace
}  // namespace attend
