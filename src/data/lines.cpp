#include "attend/data/lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "io/atomic_file.h"

namespace attend {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;
constexpr size_t kLongestLine = size_t{1} << 28;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The bytes of a file, decompressed if it is gzip: zlib passes other content through unchanged.
class Bytes {
 public:
  Bytes(const std::string& path, const std::string& name) : name_(name) {
    const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require<FormatError>(file >= 0, name_, ": cannot open: ", std::strerror(errno));
    struct stat status {};
    const bool folder = fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
    if (!folder) file_ = gzdopen(file, "rb");
    if (file_ != nullptr) return;
    close(file);
    require<FormatError>(!folder, name_, ": expected a file, got a folder");
    throw Error(name_ + ": out of memory");
  }
  ~Bytes() { gzclose_r(file_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  /// Returns the number of bytes read, 0 at the end.
  size_t read(char* to, size_t size) {
    const int count = gzread(file_, to, static_cast<unsigned>(size));
    if (count > 0) return static_cast<size_t>(count);
    int code = Z_OK;
    gzerror(file_, &code);
    require<FormatError>(code != Z_ERRNO, name_, ": cannot read: ", std::strerror(errno));
    require<FormatError>(code != Z_BUF_ERROR, name_, ": gzip data is truncated");
    require<FormatError>(count == 0 && code == Z_OK, name_, ": gzip data is damaged");
    return 0;
  }

 private:
  std::string name_;
  gzFile file_ = nullptr;
};

}  // namespace

struct LineReader::State {
  State(const std::string& path, LineOptions line_options)
      : name(path == "-" ? "stdin" : path), options(line_options), bytes(path, name), buffer(kBuffer, '\0') {}

  bool fill() {
    begin = 0;
    end = bytes.read(buffer.data(), buffer.size());
    return end > 0;
  }

  /// Reads up to and including the next LF. Calls keep(piece) with the bytes before it, in one or several pieces.
  template <class Keep>
  bool advance(Keep&& keep) {
    if (begin == end && !fill()) return false;
    ++lines;
    do {
      const std::string_view rest(buffer.data() + begin, end - begin);
      const size_t size = rest.find('\n');
      line_feed = size != std::string_view::npos;
      keep(rest.substr(0, size));
      begin = line_feed ? begin + size + 1 : end;
    } while (!line_feed && fill());
    return true;
  }

  std::string name;
  LineOptions options;
  Bytes bytes;
  std::string buffer;
  size_t begin = 0, end = 0;  // the unread part of the buffer
  int64_t lines = 0, replaced = 0;
  bool line_feed = false;
};

LineReader::LineReader(const std::string& path, LineOptions options) : state_(std::make_unique<State>(path, options)) {}
LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  State& state = *state_;
  line.clear();
  const bool found = state.advance([&](std::string_view piece) {
    require<FormatError>(line.size() + piece.size() <= kLongestLine, state.name, ':', state.lines, ": line exceeds ",
                         kLongestLine >> 20, " MiB");
    line += piece;
  });
  if (!found) return false;
  if (state.line_feed && line.ends_with('\r')) line.pop_back();
  const bool has_mark = state.lines == 1 && line.starts_with(kByteOrderMark);
  if (has_mark && !state.options.keep_mark) line.erase(0, kByteOrderMark.size());
  if (is_utf8(line)) return true;
  require<FormatError>(state.options.lossy, state.name, ':', state.lines, ": not UTF-8");
  RepairedText repaired = repair_utf8(line);
  line = std::move(repaired.text);
  state.replaced += repaired.replaced;
  return true;
}

bool LineReader::skip() {
  return state_->advance([](std::string_view) {});
}

const std::string& LineReader::name() const { return state_->name; }
int64_t LineReader::lines() const { return state_->lines; }
int64_t LineReader::replaced() const { return state_->replaced; }
bool LineReader::ended_with_line_feed() const { return state_->line_feed; }

LineSource line_source(std::vector<std::string> paths, LineOptions options) {
  struct Files {
    std::deque<std::string> waiting;
    LineOptions options;
    std::unique_ptr<LineReader> reader;
  };
  auto files = std::make_shared<Files>();
  files->waiting.assign(paths.begin(), paths.end());
  files->options = options;
  return [files]() -> std::optional<std::string> {
    std::string line;
    while (!files->reader || !files->reader->next(line)) {
      if (files->waiting.empty()) return std::nullopt;
      files->reader = std::make_unique<LineReader>(files->waiting.front(), files->options);
      files->waiting.pop_front();
    }
    return line;
  };
}

void save_stdin(const std::string& path) {
  AtomicFile file(path);
  Bytes input("-", "stdin");
  std::string buffer(kBuffer, '\0');
  while (const size_t count = input.read(buffer.data(), buffer.size())) file.write(buffer.data(), count);
  file.commit();
}

}  // namespace attend
