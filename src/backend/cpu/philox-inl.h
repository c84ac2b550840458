// Philox4x32 in vector lanes: gives the same words as attend/base/random.h. Included once for each instruction set.
#if defined(ATTEND_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_PHILOX_INL_H_
#undef ATTEND_PHILOX_INL_H_
#else
#define ATTEND_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "attend/base/random.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The high and low halves of the 64-bit products factor · x, lane by lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void MultiplyWide(D d, V x, uint32_t factor, V& high, V& low) {
  const hn::RepartitionToWide<D> wide;
  const auto f = hn::Set(d, factor);
  const auto even = hn::MulEven(x, f);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), f);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

/// The four words of a Philox block, one vector each.
template <class V>
using FourWords = std::array<V, 4>;

/// kRounds rounds on kSets independent sets of lanes. A round is a chain of multiplications, so a single set leaves the
/// execution units idle.
template <int kRounds, int kSets, class D, class V = hn::Vec<D>>
HWY_INLINE void PhiloxRounds(D d, RandomStream random, FourWords<V> (&c)[kSets]) {
  auto k0 = static_cast<uint32_t>(random.seed), k1 = static_cast<uint32_t>(random.seed >> 32);
  for (int round = 0; round < kRounds; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const auto key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
    HWY_UNROLL(2) for (int i = 0; i < kSets; ++i) {
      V high0, low0, high1, low1;
      MultiplyWide(d, c[i][0], 0xD2511F53u, high0, low0);
      MultiplyWide(d, c[i][2], 0xCD9E8D57u, high1, low1);
      c[i] = {hn::Xor(hn::Xor(high1, c[i][1]), key0), low1, hn::Xor(hn::Xor(high0, c[i][3]), key1), low0};
    }
  }
}

/// The four words for each lane's 64-bit counter (given as low and high halves). The stream is the upper part of the
/// 128-bit counter.
template <int kRounds, class D, class V = hn::Vec<D>>
HWY_INLINE FourWords<V> PhiloxLanes(D d, RandomStream random, V counter_low, V counter_high) {
  FourWords<V> c[1] = {{counter_low, counter_high, hn::Set(d, static_cast<uint32_t>(random.stream)),
                        hn::Set(d, static_cast<uint32_t>(random.stream >> 32))}};
  PhiloxRounds<kRounds, 1>(d, random, c);
  return c[0];
}

/// One counter of dropout for each lane of T: first, first + step, first + 2 step, … Also gives the words `offset`
/// counters further on, as integers of T's width.
template <class DT>
class LaneCounters {
 public:
  using Integer = hwy::MakeUnsigned<hn::TFromD<DT>>;
  using DI = hn::Rebind<Integer, DT>;

  LaneCounters(uint64_t first, uint64_t step) {
    for (size_t lane = 0; lane < hn::Lanes(DT()); ++lane) {
      const uint64_t counter = first + step * lane;
      low_[lane] = static_cast<Integer>(sizeof(Integer) == 4 ? counter & 0xffffffffu : counter);
      high_[lane] = static_cast<Integer>(counter >> 32);
    }
  }

  HWY_INLINE std::array<hn::Vec<DI>, 4> words(RandomStream random, uint64_t offset) const {
    const DI d;
    if constexpr (sizeof(Integer) == 4) {
      const auto start = hn::Load(d, low_), low = hn::Add(start, hn::Set(d, static_cast<uint32_t>(offset)));
      const auto carry = hn::IfThenElseZero(hn::Gt(start, low), hn::Set(d, 1u));
      const auto high = hn::Add(hn::Load(d, high_), hn::Set(d, static_cast<uint32_t>(offset >> 32)));
      return PhiloxLanes<kDropRounds>(d, random, low, hn::Add(high, carry));
    } else {
      HWY_ALIGN uint64_t words[4][hn::MaxLanes(DT())];
      for (size_t lane = 0; lane < hn::Lanes(DT()); ++lane) {
        const auto four = philox<kDropRounds>(random.seed, low_[lane] + offset, random.stream);
        for (size_t word = 0; word < 4; ++word) words[word][lane] = four[word];
      }
      return {hn::Load(d, words[0]), hn::Load(d, words[1]), hn::Load(d, words[2]), hn::Load(d, words[3])};
    }
  }

 private:
  HWY_ALIGN Integer low_[hn::MaxLanes(DT())];   // the whole counter if T has 64 bits
  HWY_ALIGN Integer high_[hn::MaxLanes(DT())];  // the upper half if T has 32 bits
};

/// Number of blocks that PhiloxBlocks writes for `blocks` requested blocks: rounded up to whole vectors.
constexpr int64_t RoundUpBlocks(int64_t blocks) { return (blocks + 15) / 16 * 16; }

/// Writes the four words of each of `blocks` consecutive counters from `first` on, in order. `words` must have room for
/// 4 · RoundUpBlocks(blocks) words.
template <int kRounds>
void PhiloxBlocks(RandomStream random, uint64_t first, int64_t blocks, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint32_t> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto counters = [&](int64_t block) -> FourWords<V> {
    const uint64_t counter = first + static_cast<uint64_t>(block);
    const auto start = hn::Set(d, static_cast<uint32_t>(counter)), low = hn::Add(start, hn::Iota(d, 0));
    const auto carry = hn::IfThenElseZero(hn::Gt(start, low), hn::Set(d, 1u));
    return {low, hn::Add(hn::Set(d, static_cast<uint32_t>(counter >> 32)), carry),
            hn::Set(d, static_cast<uint32_t>(random.stream)), hn::Set(d, static_cast<uint32_t>(random.stream >> 32))};
  };
  const auto store = [&](const FourWords<V>& c, int64_t block) {
    hn::StoreInterleaved4(c[0], c[1], c[2], c[3], d, words + block * 4);
  };
  int64_t block = 0;
  for (; block + lanes < blocks; block += 2 * lanes) {
    FourWords<V> c[2] = {counters(block), counters(block + lanes)};
    PhiloxRounds<kRounds, 2>(d, random, c);
    store(c[0], block);
    store(c[1], block + lanes);
  }
  if (block >= blocks) return;
  FourWords<V> c[1] = {counters(block)};
  PhiloxRounds<kRounds, 1>(d, random, c);
  store(c[0], block);
}

/// Whether dropout keeps each element, from the lower 15 bits of integers of the elements' width.
template <class DT, class V>
HWY_INLINE hn::Mask<DT> KeepMask(DT d, V bits, uint32_t threshold) {
  using Integer = hwy::MakeSigned<hn::TFromD<DT>>;
  const hn::Rebind<Integer, DT> di;
  const auto own = hn::And(hn::BitCast(di, bits), hn::Set(di, Integer{0x7fff}));
  return hn::RebindMask(d, hn::Gt(own, hn::Set(di, static_cast<Integer>(threshold) - 1)));
}

/// Elements whose words are generated at a time: they fit into L1.
inline constexpr int64_t kBatch = 1024;

/// Calls use(words, at, count) for consecutive parts of the elements first … first + count − 1 of a stream. words[i]
/// belongs to element first + at + i. words[-1] and words[count] belong to the elements before and after the part if
/// these share a Philox block with it.
template <class F>
void ForWords(RandomStream stream, int64_t first, int64_t count, F&& use) {
  HWY_ALIGN uint32_t words[4 * RoundUpBlocks(kBatch / 4 + 1) + 16];  // one vector more, which may be read but not used
  for (int64_t at = 0; at < count; at += kBatch) {
    const int64_t size = std::min(kBatch, count - at), begin = first + at, block = begin / 4;
    PhiloxBlocks<10>(stream, static_cast<uint64_t>(block), (begin + size + 3) / 4 - block, words);
    use(words + begin % 4, at, size);
  }
}

/// The same for dropout: calls use(bits, at, count), where bits[i] has the 15 bits of element first + at + i.
template <class F>
void ForDropBits(RandomStream stream, int64_t first, int64_t count, F&& use) {
  constexpr int64_t kWords = 4 * RoundUpBlocks(kBatch / kDropGroup + 1);
  HWY_ALIGN uint32_t words[kWords];
  HWY_ALIGN uint16_t bits[2 * kWords + 32];  // one vector more, which may be read but not used
  for (int64_t at = 0; at < count; at += kBatch) {
    const int64_t size = std::min(kBatch, count - at), begin = first + at, block = begin / kDropGroup;
    const int64_t blocks = (begin + size + kDropGroup - 1) / kDropGroup - block;
    PhiloxBlocks<kDropRounds>(stream, static_cast<uint64_t>(block), blocks, words);
    std::memcpy(bits, words, static_cast<size_t>(blocks) * 4 * sizeof(uint32_t));  // the lower half comes first
    use(bits + begin % kDropGroup, at, size);
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_PHILOX_INL_H_
