#include <zlib.h>

#include <algorithm>
#include <vector>

#include "attend/base/error.h"
#include "attend/data/token_cache.h"
#include "data/token_cache_format.h"
#include "io/atomic_file.h"

namespace attend {
namespace cache_format {

uint32_t checksum(uint32_t before, const void* data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(before, static_cast<const Bytef*>(data), bytes));
}

uint32_t index_checksum(std::span<const std::byte> offsets, std::span<const std::byte> fingerprint, Footer footer) {
  footer.index_checksum = 0;
  const uint32_t first = checksum(0, offsets.data(), offsets.size());
  return checksum(checksum(first, fingerprint.data(), fingerprint.size()), &footer, sizeof footer);
}

}  // namespace cache_format

namespace {

constexpr size_t kBufferedIds = size_t{1} << 18;

void check(std::span<const int32_t> ids) {
  const int32_t smallest = ids.empty() ? 0 : *std::ranges::min_element(ids);
  require<ShapeError>(smallest >= 0, "token cache: expected ids of at least 0, got ", smallest);
  require<ShapeError>(ids.size() <= 0xffffffffu, "token cache: a sequence of ", ids.size(), " ids is too long");
}

}  // namespace

struct TokenCacheWriter::State {
  explicit State(const std::string& path) : file(path) {}

  AtomicFile file;
  std::string fingerprint;
  cache_format::Footer footer;
  std::vector<int32_t> buffer;
  std::vector<uint32_t> lengths;
  bool finished = false;

  void flush() {
    const size_t bytes = buffer.size() * sizeof(int32_t);
    footer.ids_checksum = cache_format::checksum(footer.ids_checksum, buffer.data(), bytes);
    file.write(buffer.data(), bytes);
    buffer.clear();
  }

  void add(std::span<const int32_t> ids) {
    if (!ids.empty()) footer.largest_id = std::max<int64_t>(footer.largest_id, *std::ranges::max_element(ids));
    if (buffer.size() + ids.size() > kBufferedIds) flush();
    buffer.insert(buffer.end(), ids.begin(), ids.end());
    lengths.push_back(static_cast<uint32_t>(ids.size()));
    footer.ids += ids.size();
  }

  std::vector<uint64_t> offsets() const {
    std::vector<uint64_t> result{0};
    result.reserve(lengths.size() + 1);
    for (const uint32_t length : lengths) result.push_back(result.back() + length);
    return result;
  }
};

TokenCacheWriter::TokenCacheWriter(const std::string& path, int64_t columns, std::string fingerprint) {
  require<ShapeError>(columns >= 1 && static_cast<uint64_t>(columns) <= cache_format::kMaxColumns,
                      "token cache: expected 1 to ", cache_format::kMaxColumns, " columns, got ", columns);
  state_ = std::make_unique<State>(path);
  set_fingerprint(std::move(fingerprint));
  state_->footer.columns = static_cast<uint64_t>(columns);
  state_->buffer.reserve(kBufferedIds);
  state_->file.write(&cache_format::kMagic, sizeof cache_format::kMagic);
}
TokenCacheWriter::~TokenCacheWriter() = default;
TokenCacheWriter::TokenCacheWriter(TokenCacheWriter&&) noexcept = default;
TokenCacheWriter& TokenCacheWriter::operator=(TokenCacheWriter&&) noexcept = default;

void TokenCacheWriter::add(std::initializer_list<std::span<const int32_t>> columns) {
  require<ShapeError>(!state_->finished, "token cache: add() was called after finish()");
  require<ShapeError>(columns.size() == state_->footer.columns, "token cache: expected ", state_->footer.columns,
                      " columns, got ", columns.size());
  for (const std::span<const int32_t> ids : columns) check(ids);
  for (const std::span<const int32_t> ids : columns) state_->add(ids);
  ++state_->footer.examples;
}

void TokenCacheWriter::set_fingerprint(std::string fingerprint) {
  require<ShapeError>(!state_->finished, "token cache: the fingerprint cannot change after finish");
  require<ShapeError>(fingerprint.size() <= cache_format::kMaxFingerprint, "token cache: a fingerprint of ",
                      fingerprint.size(), " bytes is too long");
  state_->fingerprint = std::move(fingerprint);
  state_->footer.fingerprint_bytes = state_->fingerprint.size();
}

void TokenCacheWriter::finish() {
  require<ShapeError>(!state_->finished, "token cache: finish() was called twice");
  State& state = *state_;
  state.flush();
  if (state.footer.ids % 2 != 0) {
    constexpr int32_t kPadding = 0;
    state.file.write(&kPadding, sizeof kPadding);
  }
  const std::vector<uint64_t> offsets = state.offsets();
  state.fingerprint.resize(cache_format::padded(state.fingerprint.size()), '\0');
  const auto index = std::as_bytes(std::span(offsets)), name = std::as_bytes(std::span(state.fingerprint));
  state.footer.index_checksum = cache_format::index_checksum(index, name, state.footer);
  state.file.write(index.data(), index.size());
  state.file.write(name.data(), name.size());
  state.file.write(&state.footer, sizeof state.footer);
  state.file.commit();
  state.finished = true;
}

}  // namespace attend
