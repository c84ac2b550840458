#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attend {

/// Writes the ids of a corpus to a file that TokenCache maps: examples of one or more columns (source and target), each
/// a sequence of ids. Of the corpus only 4 bytes a sequence are held in memory.
class TokenCacheWriter {
 public:
  /// Writes beside `path`; the file appears in finish(), or not at all. `fingerprint` says what the ids were made from
  /// (corpus and tokenizer), for TokenCache::open to compare. Throws Error if the system refuses.
  TokenCacheWriter(const std::string& path, int64_t columns, std::string fingerprint);
  ~TokenCacheWriter();
  TokenCacheWriter(TokenCacheWriter&&) noexcept;
  TokenCacheWriter& operator=(TokenCacheWriter&&) noexcept;

  /// One example, a span for each column; throws ShapeError for another number of them, or for a negative id.
  void add(std::initializer_list<std::span<const int32_t>> columns);
  /// Replaces the fingerprint: for one that is known when the whole corpus has been read. Not after finish().
  void set_fingerprint(std::string fingerprint);
  /// Writes the index, syncs and renames. Nothing may be added afterwards.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The ids of a corpus, mapped from disk: larger than memory is fine. Cheap to copy; safe to use from many threads.
class TokenCache {
 public:
  /// Throws FormatError if the file is damaged, or if its fingerprint is not the expected one (which nullopt leaves
  /// unchecked). Looks at all but the ids themselves: see verify.
  static TokenCache open(const std::string& path, std::optional<std::string_view> fingerprint = std::nullopt);

  int64_t size() const { return examples_; }
  int64_t columns() const { return columns_; }
  /// Throws ShapeError for an example or column that is not there.
  std::span<const int32_t> sequence(int64_t example, int64_t column = 0) const;
  int64_t length(int64_t example, int64_t column = 0) const;
  int64_t tokens(int64_t column) const;  ///< of all examples
  int64_t total_tokens() const { return static_cast<int64_t>(ids_.size()); }
  int32_t largest_id() const { return largest_id_; }  ///< to compare with a vocabulary; -1 without any ids
  const std::string& fingerprint() const { return fingerprint_; }

  /// Reads all ids once and throws FormatError if any of them has changed since it was written.
  void verify() const;

 private:
  int64_t examples_ = 0, columns_ = 1;
  int32_t largest_id_ = -1;
  uint32_t checksum_ = 0;  // of the ids
  std::span<const int32_t> ids_;
  std::span<const uint64_t> offsets_;  // [examples · columns + 1], of where each sequence begins in ids_
  std::string path_, fingerprint_;
  std::shared_ptr<const void> owner_;
};

}  // namespace attend
