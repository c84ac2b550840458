// Pages are shared, copied before they are written to, found by their tokens, and evicted least recently used first.
#include "nn/pages.h"

#include <gtest/gtest.h>

#include <numeric>

#include "attend/base/error.h"
#include "testing/gradients.h"

namespace attend {
namespace {

constexpr PageLayout kLayout{.key_heads = 1, .key_dim = 2, .value_dim = 2};

std::shared_ptr<PagePool> pool_of(int64_t pages) {
  auto pool = std::make_shared<PagePool>(pages * 2 * kLayout.bytes());
  pool->set_layout(kLayout, 2);
  return pool;
}

std::vector<int32_t> tokens(int64_t count, int32_t first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

void read(PageTable& row, const std::vector<int32_t>& ids) {
  row.extend(std::ssize(ids));
  row.written(ids);
}

TEST(Pages, ASharedPageIsCopiedBeforeItIsWritten) {
  const auto pool = pool_of(10);
  PageTable a(pool);
  read(a, tokens(20));
  static_cast<float*>(a.addresses(1)[1])[3] = 7;
  PageTable b = a;
  EXPECT_EQ(pool->used(), 2);
  EXPECT_EQ(a.addresses(0), b.addresses(0));
  b.extend(1);
  EXPECT_EQ(pool->used(), 3);
  EXPECT_EQ(a.addresses(0)[0], b.addresses(0)[0]);
  EXPECT_NE(a.addresses(0)[1], b.addresses(0)[1]);
  EXPECT_EQ(static_cast<float*>(b.addresses(1)[1])[3], 7);
  a.extend(1);  // no longer shared
  EXPECT_EQ(pool->used(), 3);
}

TEST(Pages, WarmMemoryIsUsedFirst) {
  const auto pool = pool_of(3);
  pool->warm(2);
  EXPECT_EQ(pool->used(), 0);
  EXPECT_EQ(pool->idle(), 0);
  const std::byte* first = pool->data(0, 0);
  const std::byte* second = pool->data(1, 0);
  PageTable row(pool);
  read(row, tokens(2 * kPagePositions));
  EXPECT_EQ(pool->used(), 2);
  for (const int32_t page : row.pages()) EXPECT_TRUE(pool->data(page, 0) == first || pool->data(page, 0) == second);
  pool->warm(100);  // up to the limit
  PageTable other(pool);
  read(other, tokens(kPagePositions));
  testing::expect_error<Error>([&] { read(other, tokens(1)); }, "PagePool: all 3 pages are in use");
}

TEST(Pages, AKnownBeginningIsTakenOver) {
  const auto pool = pool_of(10);
  {
    PageTable row(pool, true);
    read(row, tokens(40));
    EXPECT_EQ(pool->used(), 3);
  }
  EXPECT_EQ(pool->used(), 0);
  EXPECT_EQ(pool->idle(), 2);  // the third page is not full
  PageTable same(pool, true), other(pool, true), whole(pool, true);
  EXPECT_EQ(same.reuse(tokens(40)), 32);
  EXPECT_EQ(other.reuse(tokens(40, 1)), 0);
  EXPECT_EQ(whole.reuse(tokens(32)), 16);  // one token at least is read, for its logits
  EXPECT_EQ(pool->used(), 2);
  EXPECT_EQ(pool->hits(), 3);
  std::vector<int32_t> later = tokens(40);
  later[20] = 99;
  PageTable part(pool, true);
  EXPECT_EQ(part.reuse(later), 16);
}

TEST(Pages, EqualPagesOfTwoRowsBecomeOne) {
  const auto pool = pool_of(10);
  PageTable a(pool, true), b(pool, true);
  a.extend(20), b.extend(20);
  EXPECT_EQ(pool->used(), 4);
  a.written(tokens(20)), b.written(tokens(20));
  EXPECT_EQ(pool->used(), 3);
  EXPECT_EQ(a.addresses(0)[0], b.addresses(0)[0]);
}

TEST(Pages, WhatWasNotWrittenIsReleased) {
  const auto pool = pool_of(10);
  PageTable row(pool, true);
  read(row, tokens(20));
  row.extend(30);
  EXPECT_EQ(pool->used(), 4);
  row.written(tokens(3, 20));
  row.trim();
  EXPECT_EQ(pool->used(), 2);
  EXPECT_EQ(row.held(), 23);
  row.trim();
  EXPECT_EQ(pool->used(), 2);
  PageTable copy = row;  // it shares the last page until it is written to
  read(copy, tokens(1, 23));
  EXPECT_EQ(pool->used(), 3);
  read(row, tokens(9, 23));  // a full page
  row.extend(1);
  row.trim();
  EXPECT_EQ(pool->used(), 3);
}

TEST(Pages, TheLeastRecentlyUsedIsEvicted) {
  const auto pool = pool_of(4);
  for (const int32_t first : {0, 100, 200, 300}) {
    PageTable row(pool, true);
    read(row, tokens(16, first));
  }
  EXPECT_EQ(pool->idle(), 4);
  { EXPECT_EQ(PageTable(pool, true).reuse(tokens(17, 0)), 16); }  // used again: 100 is the oldest now
  PageTable row(pool);
  read(row, tokens(3));
  EXPECT_EQ(pool->idle(), 3);
  EXPECT_EQ(PageTable(pool, true).reuse(tokens(17, 100)), 0);
  for (const int32_t first : {0, 200, 300}) EXPECT_EQ(PageTable(pool, true).reuse(tokens(17, first)), 16) << first;
}

TEST(Pages, ThereAreNoMoreThanTheLimit) {
  const auto pool = pool_of(2);
  EXPECT_EQ(pool->total(), 2);
  PageTable row(pool);
  read(row, tokens(32));
  testing::expect_error<Error>([&] { row.extend(1); }, "PagePool: all 2 pages are in use");
}

}  // namespace
}  // namespace attend
