#include "attend/data/token_cache.h"

#include <algorithm>
#include <cstring>

#include "attend/base/error.h"
#include "data/token_cache_format.h"
#include "io/mapped_file.h"
#include "io/printable.h"

namespace attend {
namespace {

using cache_format::Footer;
using cache_format::kMagic;
using cache_format::padded;

void check(bool ok, const std::string& path, const char* what) {
  require<FormatError>(ok, path, ": damaged token cache: ", what);
}

/// Reads the footer and checks that the file has the size that the footer implies. Bounds every number before products
/// and sums of it are computed.
Footer read_footer(std::span<const std::byte> bytes, const std::string& path) {
  uint64_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  require<FormatError>(magic == kMagic, path, ": expected a token cache, got another kind of file");
  check(bytes.size() >= sizeof magic + sizeof(Footer) && bytes.size() % 8 == 0, path, "the file is truncated");
  Footer footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
  check(footer.magic == kMagic, path, "the file is truncated");
  const uint64_t words = bytes.size() / 8;
  const bool in_bounds = footer.columns >= 1 && footer.columns <= cache_format::kMaxColumns &&
                         footer.examples <= words && footer.ids <= 2 * words &&
                         footer.fingerprint_bytes <= cache_format::kMaxFingerprint && footer.largest_id <= INT32_MAX;
  check(in_bounds, path, "invalid footer");
  const uint64_t expected = sizeof magic + padded(footer.ids * 4) + (footer.examples * footer.columns + 1) * 8 +
                            padded(footer.fingerprint_bytes) + sizeof footer;
  check(expected == bytes.size(), path, "the file size does not match the footer");
  return footer;
}

template <class T>
std::span<const T> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

TokenCache TokenCache::open(const std::string& path, std::optional<std::string_view> fingerprint) {
  const MappedFile file = map_file(path, Links::refuse);
  const Footer footer = read_footer(file.bytes, path);
  const size_t ids_bytes = footer.ids * 4, index_bytes = (footer.examples * footer.columns + 1) * 8;
  const auto index = file.bytes.subspan(sizeof kMagic + padded(ids_bytes), index_bytes);
  const auto name =
      file.bytes.subspan(sizeof kMagic + padded(ids_bytes) + index_bytes, padded(footer.fingerprint_bytes));
  check(cache_format::index_checksum(index, name, footer) == footer.index_checksum, path,
        "wrong checksum of the index");

  TokenCache cache;
  cache.examples_ = static_cast<int64_t>(footer.examples);
  cache.columns_ = static_cast<int64_t>(footer.columns);
  cache.largest_id_ = static_cast<int32_t>(footer.largest_id);
  cache.checksum_ = footer.ids_checksum;
  cache.ids_ = as<int32_t>(file.bytes.subspan(sizeof kMagic, ids_bytes));
  cache.offsets_ = as<uint64_t>(index);
  const bool ordered = cache.offsets_.front() == 0 && cache.offsets_.back() == footer.ids &&
                       std::is_sorted(cache.offsets_.begin(), cache.offsets_.end());
  check(ordered, path, "invalid index");  // a checksum does not detect a deliberate change
  cache.path_ = path;
  cache.fingerprint_.assign(as<char>(name).data(), footer.fingerprint_bytes);
  cache.owner_ = file.owner;
  require<FormatError>(!fingerprint || *fingerprint == cache.fingerprint_, path,
                       ": made from another text or by another tokenizer: expected ",
                       in_quotes(fingerprint.value_or("")), ", got ", in_quotes(cache.fingerprint_),
                       "; restore the file that was replaced, or train again from the corpus");
  return cache;
}

std::span<const int32_t> TokenCache::sequence(int64_t example, int64_t column) const {
  require<ShapeError>(example >= 0 && example < examples_ && column >= 0 && column < columns_, "token cache: example ",
                      example, ", column ", column, " is not among ", examples_, " examples of ", columns_, " columns");
  const auto at = static_cast<size_t>(example * columns_ + column);
  return ids_.subspan(offsets_[at], offsets_[at + 1] - offsets_[at]);
}

int64_t TokenCache::length(int64_t example, int64_t column) const {
  return static_cast<int64_t>(sequence(example, column).size());
}

int64_t TokenCache::tokens(int64_t column) const {
  if (columns_ == 1 && column == 0) return total_tokens();
  int64_t count = 0;
  for (int64_t example = 0; example < examples_; ++example) count += length(example, column);
  return count;
}

void TokenCache::verify() const {
  check(cache_format::checksum(0, ids_.data(), ids_.size_bytes()) == checksum_, path_, "wrong checksum of the ids");
  const bool in_range = std::ranges::all_of(ids_, [&](int32_t id) { return id >= 0 && id <= largest_id_; });
  check(in_range, path_, "invalid ids");
}

}  // namespace attend
