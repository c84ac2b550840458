// Philox4x32-10 on vectors. Included once for each instruction set, inside foreach_target.
#if defined(ATTEND_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_PHILOX_INL_H_
#undef ATTEND_PHILOX_INL_H_
#else
#define ATTEND_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "attend/base/random.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Writes the words of philox(seed, block, stream) for `blocks` consecutive blocks from `first`, four words a block, to
/// `words`, which has room for whole vectors: RoundUpBlocks(blocks) · 4 words.
///
/// Each word has a 64-bit lane of its own, so that one multiplication gives both halves of the product; what gathers in
/// the upper halves never comes back down and is cut off at the end.
inline void PhiloxBlocks(RandomStream stream, uint64_t first, int64_t blocks, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto times = [&](auto c, uint64_t factor) {
    return hn::MulEven(hn::BitCast(d32, c), hn::BitCast(d32, hn::Set(d, factor)));
  };
  const auto low = hn::Set(d, 0xffffffffu);
  for (int64_t block = 0; block < blocks; block += lanes) {
    const auto counter = hn::Add(hn::Iota(d, 0), hn::Set(d, first + static_cast<uint64_t>(block)));
    auto c0 = counter, c1 = hn::ShiftRight<32>(counter);
    auto c2 = hn::Set(d, stream.stream), c3 = hn::Set(d, stream.stream >> 32);
    auto k0 = static_cast<uint32_t>(stream.seed), k1 = static_cast<uint32_t>(stream.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = times(c0, 0xD2511F53u), p1 = times(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, uint64_t{k0}));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, uint64_t{k1}));
      c1 = p1;
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto first_pair = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto second_pair = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first_pair, second_pair, d, reinterpret_cast<uint64_t*>(words + block * 4));
  }
}

/// Blocks that PhiloxBlocks writes when asked for `blocks`.
constexpr int64_t RoundUpBlocks(int64_t blocks) { return (blocks + 7) / 8 * 8; }

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_PHILOX_INL_H_
