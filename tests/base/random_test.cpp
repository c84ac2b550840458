#include "attend/base/random.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

// Known answers of the Random123 distribution for philox4x32-10.
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Rng, HandsOutDistinctStreamsAndResumes) {
  Rng rng{.seed = 7};
  const RandomStream first = rng.stream(), second = rng.stream();
  EXPECT_NE(first.stream, second.stream);
  Rng resumed{.seed = 7, .next = 1};
  EXPECT_EQ(resumed.stream().stream, second.stream);
}

}  // namespace
}  // namespace attend
