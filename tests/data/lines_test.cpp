#include "attend/data/lines.h"

#include <unistd.h>
#include <zlib.h>

#include <cstdio>

#include "data_testing.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using testing::write_file;
using Lines = std::vector<std::string>;

Lines read_all(LineReader& reader) {
  Lines lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

struct TextFile {
  explicit TextFile(std::string_view bytes) { write_file(path(), bytes); }
  std::string path() const { return folder.file("text"); }
  Lines lines(LineOptions options = {}) const {
    LineReader reader(path(), options);
    return read_all(reader);
  }
  TemporaryFolder folder;
};

std::string gzip(const std::string& text) {
  const TemporaryFolder folder;
  gzFile file = gzopen(folder.file("packed").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return testing::read_file(folder.file("packed"));
}

/// Redirects standard input from a file until the end of the scope.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path) : before_(dup(STDIN_FILENO)) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    dup2(fileno(file), STDIN_FILENO);
    std::fclose(file);
  }
  ~StandardInput() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }

 private:
  int before_;
};

TEST(Lines, LineEndsAndTheByteOrderMarkAreStripped) {
  EXPECT_EQ(TextFile("一\n二\n").lines(), (Lines{"一", "二"}));
  EXPECT_EQ(TextFile("a\r\nb\r\n\r\nc").lines(), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(TextFile("\xef\xbb\xbf"
                     "a\n\xef\xbb\xbf"
                     "b")
                .lines(),
            (Lines{"a", "\ufeffb"}))
      << "only at the beginning";
  EXPECT_EQ(TextFile("\ufeffa\n").lines({.keep_mark = true}), (Lines{"\ufeffa"}));
  EXPECT_EQ(TextFile("a\rb\x85\n").lines({.lossy = true}), (Lines{"a\rb\ufffd"})) << "a lone CR is not an end";
  EXPECT_EQ(TextFile("\u2028\u0085x\n").lines(), (Lines{"\u2028\u0085x"})) << "nor are Unicode's separators";
  EXPECT_EQ(TextFile("\n\n").lines(), (Lines{"", ""}));
  EXPECT_EQ(TextFile("").lines(), Lines{});
  EXPECT_EQ(TextFile(std::string_view("a\0b\n", 4)).lines(), (Lines{std::string("a\0b", 3)}));
}

TEST(Lines, LongerThanTheBuffer) {
  std::string text;
  Lines expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::string(static_cast<size_t>(i * i * 517), static_cast<char>('a' + i % 26)) + "é");
    text += expected.back() + (i % 2 ? "\n" : "\r\n");
  }
  EXPECT_EQ(TextFile(text).lines(), expected);
}

TEST(Lines, InvalidUtf8IsRefusedOrReplaced) {
  const TextFile file("gut\nschlecht \xff\xe4\xbd!\n\xed\xa0\x80\n");
  expect_error<FormatError>([&] { file.lines(); }, file.path() + ":2: not UTF-8");
  LineReader reader(file.path(), {.lossy = true});
  EXPECT_EQ(read_all(reader), (Lines{"gut", "schlecht ��!", "���"}));
  EXPECT_EQ(reader.replaced(), 5);
  EXPECT_EQ(reader.lines(), 3);
}

TEST(Lines, GzipIsRecognisedByItsFirstBytes) {
  const std::string text = "今天\r\n天气\n", packed = gzip(text);
  EXPECT_EQ(TextFile(packed).lines(), (Lines{"今天", "天气"}));
  EXPECT_EQ(TextFile(packed + gzip("更多\n")).lines(), (Lines{"今天", "天气", "更多"})) << "several members";
  const TextFile cut(packed.substr(0, packed.size() - 6));
  expect_error<FormatError>([&] { cut.lines(); }, cut.path() + ": gzip data is truncated");
  std::string spoilt = packed;
  spoilt[packed.size() - 5] = static_cast<char>(~spoilt[packed.size() - 5]);
  const TextFile damaged(spoilt);
  expect_error<FormatError>([&] { damaged.lines(); }, damaged.path() + ": gzip data is damaged");
}

TEST(Lines, DamagedGzipIsReadOrRefused) {
  std::string text;
  for (int i = 0; i < 200; ++i) text.append("Zeile ").append(std::to_string(i * i)).append("\n");
  const std::string packed = gzip(text);
  int refused = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string spoilt = packed;
    spoilt[i] = static_cast<char>(spoilt[i] ^ 0x55);
    try {
      TextFile(spoilt).lines({.lossy = true});
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(packed.size()) - 20) << "but for bytes of the header that mean little";
}

TEST(Lines, FilesThatCannotBeOpened) {
  const TemporaryFolder folder;
  expect_error<FormatError>([&] { LineReader reader(folder.file("absent")); },
                            folder.file("absent") + ": cannot open: No such file or directory");
  expect_error<FormatError>([&] { LineReader reader(folder.path()); },
                            folder.path() + ": expected a file, got a folder");
}

TEST(Lines, StandardInput) {
  const TextFile file("eins\nzwei \xff\n");
  {
    const StandardInput input(file.path());
    LineReader reader("-");
    std::string line;
    EXPECT_TRUE(reader.next(line));
    EXPECT_EQ(line, "eins");
    expect_error<FormatError>([&] { reader.next(line); }, "stdin:2: not UTF-8");
  }
  const StandardInput input(file.path());
  save_stdin(file.folder.file("copy"));
  EXPECT_EQ(testing::read_file(file.folder.file("copy")), "eins\nzwei \xff\n");
}

TEST(Lines, SeveralFilesAsOneSource) {
  const TextFile first("a\nb"), empty(""), last("c\n");
  const LineSource source = line_source({first.path(), empty.path(), last.path()});
  Lines lines;
  while (const auto line = source()) lines.push_back(*line);
  EXPECT_EQ(lines, (Lines{"a", "b", "c"}));
  EXPECT_EQ(source(), std::nullopt);
}

}  // namespace
}  // namespace attend
