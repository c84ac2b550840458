#include "attend/nn/cache.h"

#include <gtest/gtest.h>

#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// The caches of one layer and their expected contents: the tokens of each row, each with a unique key and value.
class CacheRows : public ::testing::Test {
 protected:
  static constexpr int64_t kHeads = 2, kDim = 3;

  void append(const std::vector<int64_t>& counts) {
    const int64_t count = *std::ranges::max_element(counts), rows = std::ssize(counts);
    CacheStep step{.held = {}, .count = count};
    rows_.resize(counts.size());
    std::vector<float> keys, values;
    for (size_t row = 0; row < counts.size(); ++row) {
      step.held.push_back(std::ssize(rows_[row]));
      std::vector<float> fresh;
      for (int64_t i = 0; i < count; ++i) fresh.push_back(static_cast<float>(++last_));
      rows_[row].insert(rows_[row].end(), fresh.begin(), fresh.begin() + counts[row]);
      for (int64_t head = 0; head < kHeads; ++head) {
        for (const float token : fresh) {
          for (int64_t c = 0; c < kDim; ++c) {
            keys.push_back(key(token, head, c));
            values.push_back(-key(token, head, c));
          }
        }
      }
    }
    const Shape shape{rows, kHeads, count, kDim};
    held_ = cache_.append({tensor(keys, shape), tensor(values, shape)}, step);
    history_.append(counts);
    expect_right();
  }

  /// Moves the rows and returns the number of positions copied.
  int64_t select(const std::vector<int64_t>& order) {
    std::vector<std::vector<float>> rows;
    for (const int64_t row : order) rows.push_back(rows_[static_cast<size_t>(row)]);
    rows_ = rows;
    const RowMoves moves = history_.select(order);
    cache_.move(moves);
    int64_t copied = 0;
    for (const RowMoves::Copy& copy : moves.copies) copied += copy.end - copy.begin;
    return copied;
  }

  static float key(float token, int64_t head, int64_t c) {
    return token + static_cast<float>(1000 * head + 100000 * c);
  }

  void expect_right() const {
    const auto keys = held_.keys.to_vector<float>(), values = held_.values.to_vector<float>();
    const auto length = static_cast<size_t>(held_.keys.dim(2));
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (size_t i = 0; i < rows_[row].size(); ++i) {
        for (int64_t head = 0; head < kHeads; ++head) {
          for (int64_t c = 0; c < kDim; ++c) {
            const size_t place =
                ((row * kHeads + static_cast<size_t>(head)) * length + i) * kDim + static_cast<size_t>(c);
            ASSERT_EQ(keys[place], key(rows_[row][i], head, c)) << "row " << row << ", position " << i;
            ASSERT_EQ(values[place], -key(rows_[row][i], head, c)) << "row " << row << ", position " << i;
          }
        }
      }
    }
  }

  KeyValueCache cache_;
  RowHistory history_;
  KeyValues held_;
  std::vector<std::vector<float>> rows_;
  int last_ = 0;
};

TEST_F(CacheRows, ARowThatContinuesANeighbourCopiesOnlyDifferences) {
  append({5, 5, 5});
  EXPECT_EQ(select({0, 0, 0}), 10);  // nothing in common yet
  append({1, 1, 1});
  EXPECT_EQ(select({0, 0, 2}), 1);
  append({1, 1, 1});
  append({1, 1, 1});
  EXPECT_EQ(select({0, 1, 1}), 3);
  EXPECT_EQ(select({0, 1, 2}), 0);
  append({1, 1, 1});
}

TEST_F(CacheRows, RowsThatChangePlacesAreCopiedWhole) {
  append({4, 4, 4});
  EXPECT_EQ(select({1, 0, 2}), 12);
  append({1, 1, 1});
  EXPECT_EQ(select({2, 0}), 10);  // drops one row
  append({1, 1});
  EXPECT_EQ(select({0, 1, 1, 0}), 24);  // repeats some rows
  append({1, 1, 1, 1});
  EXPECT_EQ(select({0, 1, 1, 0}), 2);
  append({1, 1, 1, 1});
}

TEST_F(CacheRows, RowsOfDifferentLengthsKeepTheirs) {
  append({3, 1, 2});
  EXPECT_EQ(select({0, 0, 2}), 3);
  append({1, 1, 1});
  EXPECT_EQ(select({2, 1, 2}), 3);
  append({1, 1, 1});
}

TEST_F(CacheRows, AnEmptyCacheMovesNothing) {
  EXPECT_EQ(history_.select(std::vector<int64_t>{1, 0}).copies.size(), 0u);
  append({2, 2});
}

}  // namespace
}  // namespace attend
