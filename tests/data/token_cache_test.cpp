#include "attend/data/token_cache.h"

#include <array>
#include <cstring>
#include <filesystem>

#include "attend/base/random.h"
#include "data/token_cache_format.h"
#include "data_testing.h"

namespace attend {
namespace {

using testing::CacheFile;
using testing::expect_error;
using testing::TemporaryFolder;
using Ids = std::vector<int32_t>;

Ids copy(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(TokenCache, RoundTrip) {
  const CacheFile file({{{1, 2, 3}, {4}}, {{}, {5, 6}}, {{7}, {}}});
  const TokenCache cache = file.open();
  EXPECT_EQ(cache.size(), 3);
  EXPECT_EQ(cache.columns(), 2);
  EXPECT_EQ(copy(cache.sequence(0, 0)), (Ids{1, 2, 3}));
  EXPECT_EQ(copy(cache.sequence(0, 1)), (Ids{4}));
  EXPECT_EQ(copy(cache.sequence(1, 0)), Ids{});
  EXPECT_EQ(copy(cache.sequence(1, 1)), (Ids{5, 6}));
  EXPECT_EQ(copy(cache.sequence(2)), (Ids{7}));
  EXPECT_EQ(cache.length(1, 1), 2);
  EXPECT_EQ(cache.tokens(0), 4);
  EXPECT_EQ(cache.tokens(1), 3);
  EXPECT_EQ(cache.total_tokens(), 7);
  EXPECT_EQ(cache.largest_id(), 7);
  EXPECT_EQ(cache.fingerprint(), "test");
  cache.verify();
  expect_error<ShapeError>([&] { cache.sequence(3, 0); },
                           "token cache: example 3, column 0 is not among 3 examples of 2 columns");
  expect_error<ShapeError>([&] { cache.sequence(0, 2); },
                           "token cache: example 0, column 2 is not among 3 examples of 2 columns");
}

TEST(TokenCache, LargerThanItsBuffer) {
  const TemporaryFolder folder;
  const auto make = [](int64_t example) {
    const auto random = philox(1, static_cast<uint64_t>(example), 0);
    Ids ids(random[0] % (example % 100 == 0 ? 300000 : 300));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((random[1] + i) % 32000);
    return ids;
  };
  TokenCacheWriter writer(folder.file("ids"), 1, "");
  for (int64_t i = 0; i < 1000; ++i) writer.add({make(i)});
  writer.finish();
  const TokenCache cache = TokenCache::open(folder.file("ids"), "");
  cache.verify();
  ASSERT_EQ(cache.size(), 1000);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(copy(cache.sequence(i)), make(i)) << i;
}

TEST(TokenCache, WithoutExamplesOrIds) {
  const TemporaryFolder folder;
  TokenCacheWriter(folder.file("none"), 2, "").finish();
  const TokenCache none = TokenCache::open(folder.file("none"));
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.largest_id(), -1);
  none.verify();
}

TEST(TokenCache, AppearsCompleteOrNotAtAll) {
  const TemporaryFolder folder;
  {
    TokenCacheWriter writer(folder.file("ids"), 1, "");
    writer.add({Ids{1}});
    EXPECT_FALSE(std::filesystem::exists(folder.file("ids")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "an unfinished writer leaves no trace";
  TokenCacheWriter writer(folder.file("ids"), 2, "");
  expect_error<ShapeError>([&] { writer.add({Ids{1}}); }, "token cache: expected 2 columns, got 1");
  expect_error<ShapeError>([&] { writer.add({Ids{1}, Ids{-1}}); }, "token cache: expected ids of at least 0, got -1");
  EXPECT_THROW(TokenCacheWriter(folder.file("no/such/folder"), 1, ""), Error);
  EXPECT_THROW(TokenCacheWriter(folder.file("ids"), 0, ""), ShapeError);
}

TEST(TokenCache, ARefusedExampleLeavesNoFile) {
  const TemporaryFolder folder;
  TokenCacheWriter writer(folder.file("ids"), 2, "");
  EXPECT_THROW(writer.add({Ids{1}, Ids{-1}}), ShapeError);
  writer.add({Ids{2}, Ids{3}});
  writer.finish();
  EXPECT_EQ(copy(TokenCache::open(folder.file("ids")).sequence(0, 0)), (Ids{2}));
  EXPECT_THROW(writer.add({Ids{2}, Ids{3}}), ShapeError);
  EXPECT_THROW(writer.finish(), ShapeError);
}

TEST(TokenCache, TheFingerprintIsCompared) {
  const CacheFile file({{{1}}, {{2}}});
  EXPECT_EQ(TokenCache::open(file.path(), "test").size(), 2);
  expect_error<FormatError>([&] { TokenCache::open(file.path(), "another"); },
                            file.path() +
                                ": made from another text or by another tokenizer: expected 'another', got 'test'; "
                                "restore the file that was replaced, or train again from the corpus");
}

TEST(TokenCache, OutlivesTheObjectItWasCopiedFrom) {
  const CacheFile file({{{1, 2}}, {{3}}});
  TokenCache copy_of_it;
  {
    const TokenCache cache = file.open();
    copy_of_it = cache;
  }
  EXPECT_EQ(copy(copy_of_it.sequence(0)), (Ids{1, 2}));
}

TEST(TokenCache, AnyDamageIsFound) {
  const CacheFile file({{{1, 2, 3}, {4}}, {{5}, {6, 7}}});
  const std::string bytes = testing::read_file(file.path()), path = file.folder.file("spoilt");
  const auto open = [&](const std::string& content) {
    testing::write_file(path, content);
    TokenCache::open(path).verify();
  };
  open(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool padding = i >= 8 + 7 * 4 && i < 8 + 8 * 4;
    if (padding) continue;  // seven ids leave four unused bytes
    for (const int bit : {0, 3, 7}) {
      std::string spoilt = bytes;
      spoilt[i] = static_cast<char>(spoilt[i] ^ (1 << bit));
      EXPECT_THROW(open(spoilt), FormatError) << "byte " << i << ", bit " << bit;
    }
  }
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(open(bytes.substr(0, size)), FormatError) << size;
  EXPECT_THROW(open(bytes + "x"), FormatError);
  EXPECT_THROW(open(bytes + bytes), FormatError);
  expect_error<FormatError>([&] { open("something else entirely"); },
                            path + ": expected a token cache, got another kind of file");
  expect_error<FormatError>([&] { open(bytes.substr(0, bytes.size() - 8)); },
                            path + ": damaged token cache: the file is truncated");
}

/// An attacker who changes the index can fix its checksum too, so offsets must be checked against the file's size.
TEST(TokenCache, AForgedIndexWithAValidChecksumIsRefused) {
  const CacheFile file({{{1, 2, 3}, {4}}, {{5}, {6, 7, 8}}});
  const std::string bytes = testing::read_file(file.path()), path = file.folder.file("made-up");
  constexpr size_t kIndex = 8 + 8 * 4, kOffsets = 5, kName = 8;
  cache_format::Footer footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
  const auto open_with = [&](const std::array<uint64_t, kOffsets>& offsets) {
    const auto name = std::as_bytes(std::span(bytes).subspan(kIndex + kOffsets * 8, kName));
    footer.index_checksum = cache_format::index_checksum(std::as_bytes(std::span(offsets)), name, footer);
    std::string made_up = bytes;
    std::memcpy(made_up.data() + kIndex, offsets.data(), sizeof offsets);
    std::memcpy(made_up.data() + bytes.size() - sizeof footer, &footer, sizeof footer);
    testing::write_file(path, made_up);
    return TokenCache::open(path);
  };
  EXPECT_EQ(open_with({0, 3, 4, 5, 8}).length(1, 1), 3);
  const std::vector<std::array<uint64_t, kOffsets>> impossible{
      {0, 3, 4, 5, 9}, {1, 3, 4, 5, 8}, {0, 9, 4, 5, 8}, {0, 3, ~uint64_t{0}, 5, 8}, {0, 3, 4, 5, 7}};
  for (const auto& offsets : impossible) {
    expect_error<FormatError>([&] { open_with(offsets); }, path + ": damaged token cache: invalid index");
  }
}

}  // namespace
}  // namespace attend
