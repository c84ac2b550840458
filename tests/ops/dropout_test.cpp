#include "attend/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attend/ops/attention.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

/// The random word of element i, as specified in backend/kernels.h.
uint32_t word(RandomStream stream, uint64_t i) { return philox(stream.seed, i / 4, stream.stream)[i % 4]; }

/// Whether element i is kept, as specified in backend/kernels.h.
bool is_kept(RandomStream stream, uint64_t i, double p) {
  return dropout_keeps(philox<kDropRounds>(stream.seed, i / 8, stream.stream), static_cast<int64_t>(i % 8),
                       drop_threshold(p));
}

TEST(Dropout, ThresholdsAreTheNearestAndNeverZeroForAPositiveProbability) {
  EXPECT_EQ(drop_threshold(0), 0u);
  EXPECT_EQ(drop_threshold(1e-9), 1u);
  EXPECT_EQ(drop_threshold(0.25), 0x2000u);
  EXPECT_EQ(drop_threshold(0.1), 3277u);
  EXPECT_EQ(drop_threshold(1), 0x8000u);
  EXPECT_FALSE(dropout_keeps({0x7fff7fff, 0, 0, 0}, 0, drop_threshold(1)));
  EXPECT_TRUE(dropout_keeps({0x00018000, 0, 0, 0}, 0, 0));
  EXPECT_TRUE(dropout_keeps({0x00018000, 0, 0, 0}, 1, 1));
  EXPECT_FALSE(dropout_keeps({0x00018000, 0, 0, 0}, 0, 1));  // the sixteenth bit is not used
}

/// The 15 bits of neighbours, and of the same element in consecutive streams, are independent: each bit is set in half
/// of the elements, and equal to its neighbour in half of them, within five deviations.
TEST(Dropout, BitsAreEvenAndIndependent) {
  constexpr size_t kCount = 1 << 16;
  const auto bits_of = [](uint64_t stream) {
    std::vector<uint16_t> bits;
    for (uint64_t block = 0; block < kCount / 8; ++block) {
      for (const uint32_t word : philox<kDropRounds>(11, block, stream)) {
        bits.push_back(static_cast<uint16_t>(word & 0x7fff));
        bits.push_back(static_cast<uint16_t>(word >> 16 & 0x7fff));
      }
    }
    return bits;
  };
  const std::vector<uint16_t> first = bits_of(1), second = bits_of(2);
  const double deviation = std::sqrt(kCount / 4.0);
  for (int bit = 0; bit < 15; ++bit) {
    double set = 0, like_neighbour = 0, like_stream = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const auto at = [&](const std::vector<uint16_t>& bits, size_t place) { return bits[place % kCount] >> bit & 1; };
      set += at(first, i);
      like_neighbour += at(first, i) == at(first, i + 1);
      like_stream += at(first, i) == at(second, i);
    }
    for (const double count : {set, like_neighbour, like_stream})
      EXPECT_NEAR(count, kCount / 2.0, 5 * deviation) << bit;
  }
}

TEST(Dropout, EachElementFollowsItsOwnBits) {
  const RandomStream stream{0x123456789abcdefull, 0xfedcba9876543210ull};
  for (int64_t size : {1, 31, 33, 257, 40000}) {
    const Tensor x = full({size}, 3);
    const auto y = dropout(x, 0.25, stream).to_vector();
    int64_t dropped = 0;
    for (int64_t i = 0; i < size; ++i) {
      const bool kept = is_kept(stream, static_cast<uint64_t>(i), 0.25);
      ASSERT_EQ(y[static_cast<size_t>(i)], kept ? 4.0f : 0.0f) << i;
      dropped += !kept;
    }
    if (size == 40000) {
      EXPECT_NEAR(static_cast<double>(dropped) / 40000, 0.25, 0.01);
    }
  }
}

TEST(Dropout, MasksDoNotDependOnDtypeOrThreads) {
  const Tensor x = ones({257, 257});
  const auto y = dropout(x, 0.5, {1, 2}).to_vector();
  EXPECT_EQ(dropout(to(x, DType::f64), 0.5, {1, 2}).to_vector(), y);
  expect_same_bits([](const auto& in) { return dropout(in[0], 0.5, {1, 2}); }, {random_f32({257, 257}, 1)});
  EXPECT_NE(dropout(x, 0.5, {1, 3}).to_vector(), y);
}

/// The number at `base`, in the memory of the device, is added to the stream's number.
TEST(Dropout, ABaseIsAddedToTheStream) {
  const Tensor base = to(tensor<int64_t>({40}, {1}), default_device()), x = ones({33, 9});
  const auto* address = static_cast<const uint64_t*>(base.raw());
  EXPECT_EQ(dropout(x, 0.5, {1, 2, address}).to_vector(), dropout(x, 0.5, {1, 42}).to_vector());
  EXPECT_EQ(uniform({33}, 0, 1, {1, 2, address}).to_vector(), uniform({33}, 0, 1, {1, 42}).to_vector());
  Rng rng{7, 3, address};
  EXPECT_EQ(rng.stream().stream, 3u);
  EXPECT_EQ(rng.stream().base, address);
  const Tensor q = random_f32({1, 2, 9, 8}, 1), k = random_f32({1, 2, 9, 8}, 2), v = random_f32({1, 2, 9, 8}, 3);
  const auto attended = [&](const RandomStream& stream) {
    return attention(q, k, v, {.dropout = 0.5, .random = stream}).to_vector();
  };
  EXPECT_EQ(attended({1, 2, address}), attended({1, 42}));
}

TEST(Dropout, GradientUsesTheSameMask) {
  expect_gradients([](const auto& in) { return dropout(in[0], 0.3, {5, 6}); }, {random_f64({33}, 1)});
}

TEST(Dropout, Limits) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({inf, 1.0f, std::nanf("")}, {3});
  EXPECT_EQ(dropout(x, 1, {}).to_vector(), std::vector<float>(3, 0));
  EXPECT_EQ(dropout(x, 0, {}).raw(), x.raw());
  EXPECT_EQ(dropout(empty({0}), 0.5, {}).numel(), 0);
  expect_error<ShapeError>([&] { dropout(x, 1.5, {}); }, "dropout: p must be in [0, 1], got 1.5");
}

TEST(Random, UniformMatchesItsSpecification) {
  const RandomStream stream{7, 9};
  const auto values = uniform({33, 31}, -2, 6, stream, {DType::f64}).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], -2 + 8 * static_cast<double>(uniform_from_bits(word(stream, i))));
  }
  const auto single = uniform({33, 31}, -2, 6, stream).to_vector();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(single[i], static_cast<float>(values[i]));
}

TEST(Random, NormalMatchesItsSpecification) {
  const RandomStream stream{7, 9};
  for (int64_t size : {1, 31, 33, 257, 2049}) {
    const auto values = normal({size}, 1, 3, stream, {DType::f64}).to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const double radius = std::sqrt(-2 * std::log((word(stream, i / 2 * 2) + 0.5) * 0x1p-32));
      const double angle = 2 * M_PI * (word(stream, i / 2 * 2 + 1) * 0x1p-32);
      ASSERT_NEAR(values[i], 1 + 3 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)), 1e-12) << i;
    }
  }
}

TEST(Random, NormalHasTheRightMoments) {
  const auto values = normal({1 << 20}, 0, 1, {3, 1}).to_vector<double>();
  double mean = 0, square = 0, fourth = 0;
  for (double v : values) {
    mean += v;
    square += v * v;
    fourth += v * v * v * v;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(mean / count, 0, 0.005);
  EXPECT_NEAR(square / count, 1, 0.01);
  EXPECT_NEAR(fourth / count, 3, 0.06);
}

TEST(Random, SameBitsOnAnyThreads) {
  const int before = threads();
  set_threads(1);
  const auto one = normal({100000}, 0, 1, {3, 1}).to_vector(), flat = uniform({100000}, 0, 1, {3, 1}).to_vector();
  set_threads(2);
  EXPECT_EQ(normal({100000}, 0, 1, {3, 1}).to_vector(), one);
  EXPECT_EQ(uniform({100000}, 0, 1, {3, 1}).to_vector(), flat);
  set_threads(before);
}

}  // namespace
}  // namespace attend
