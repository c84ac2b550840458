#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attend {

/// Writes the token ids of a corpus to a file that TokenCache maps. An example has one or more columns (source and
/// target), and each column is a sequence of ids. Needs 4 bytes of memory per sequence.
class TokenCacheWriter {
 public:
  /// Writes to a temporary file next to `path`; finish() renames it. `fingerprint` identifies the corpus and the
  /// tokenizer; TokenCache::open compares it. Throws Error if the file cannot be written.
  TokenCacheWriter(const std::string& path, int64_t columns, std::string fingerprint);
  ~TokenCacheWriter();
  TokenCacheWriter(TokenCacheWriter&&) noexcept;
  TokenCacheWriter& operator=(TokenCacheWriter&&) noexcept;

  /// Adds an example with one span for each column. Throws ShapeError for a wrong number of columns or a negative id.
  void add(std::initializer_list<std::span<const int32_t>> columns);
  /// Replaces the fingerprint, if it is known only when the whole corpus has been read. Not after finish().
  void set_fingerprint(std::string fingerprint);
  /// Writes the index, syncs the file and renames it. add() must not be called afterwards.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The token ids of a corpus, mapped from a file that may be larger than memory. Cheap to copy. Thread-safe.
class TokenCache {
 public:
  /// Opens a file. Throws FormatError if the file is damaged, or its fingerprint differs from the given one. Checks
  /// everything except the ids; verify() checks those.
  static TokenCache open(const std::string& path, std::optional<std::string_view> fingerprint = std::nullopt);

  int64_t size() const { return examples_; }
  int64_t columns() const { return columns_; }
  /// The ids of a sequence. Throws ShapeError if the example or the column is out of range.
  std::span<const int32_t> sequence(int64_t example, int64_t column = 0) const;
  int64_t length(int64_t example, int64_t column = 0) const;
  int64_t tokens(int64_t column) const;  ///< number of ids in a column of all examples
  int64_t total_tokens() const { return static_cast<int64_t>(ids_.size()); }
  int32_t largest_id() const { return largest_id_; }  ///< -1 if there are no ids
  const std::string& fingerprint() const { return fingerprint_; }

  /// Reads all ids. Throws FormatError if their checksum has changed since they were written.
  void verify() const;

 private:
  int64_t examples_ = 0, columns_ = 1;
  int32_t largest_id_ = -1;
  uint32_t checksum_ = 0;  // of the ids
  std::span<const int32_t> ids_;
  std::span<const uint64_t> offsets_;  // [examples · columns + 1]: start of each sequence in ids_, then the end
  std::string path_, fingerprint_;
  std::shared_ptr<const void> owner_;
};

}  // namespace attend
