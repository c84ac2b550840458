// Loops over a row of memory in vectors. Included once for each instruction set, inside foreach_target.
#if defined(ATTEND_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SWEEP_INL_H_
#undef ATTEND_SWEEP_INL_H_
#else
#define ATTEND_SWEEP_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A full vector of consecutive elements.
template <class D>
struct Whole {
  using T = hn::TFromD<D>;
  int64_t at;
  HWY_INLINE hn::Vec<D> load(const T* p, T = 0) const { return hn::LoadU(D(), p + at); }
  HWY_INLINE void store(hn::Vec<D> v, T* p) const { hn::StoreU(v, D(), p + at); }
};

/// A partial vector at the end of a row. Missing lanes read as `fill`, so that every element goes through the same
/// arithmetic, wherever it is in the row.
template <class D>
struct Rest {
  using T = hn::TFromD<D>;
  int64_t at, count;
  HWY_INLINE hn::Vec<D> load(const T* p, T fill = 0) const {
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    for (int64_t i = 0; i < static_cast<int64_t>(hn::Lanes(D())); ++i) lanes[i] = i < count ? p[at + i] : fill;
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void store(hn::Vec<D> v, T* p) const {
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, D(), lanes);
    for (int64_t i = 0; i < count; ++i) p[at + i] = lanes[i];
  }
};

/// Calls step(place) for the elements 0 … count − 1, one vector at a time; `place` loads and stores.
template <class D, class F>
HWY_INLINE void Sweep(D d, int64_t count, F&& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(Whole<D>{i});
  if (i < count) step(Rest<D>{i, count - i});
}

/// y[i] = step(place) with stores that bypass the caches, for results too large to be read again from the caches. A
/// cache line is not read before it is overwritten, which saves a third of the traffic of a pass that reads one array
/// and writes one.
template <class D, class F>
HWY_INLINE void SweepStreaming(D d, int64_t count, hn::TFromD<D>* y, F&& step) {
  using T = hn::TFromD<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(y) / sizeof(T)) % lanes;
  const int64_t head = std::min(count, past == 0 ? 0 : lanes - past);
  if (head > 0) {
    const Rest<D> place{0, head};
    place.store(step(place), y);
  }
  int64_t i = head;
  for (; i + lanes <= count; i += lanes) hn::Stream(step(Whole<D>{i}), d, y + i);
  if (i < count) {
    const Rest<D> place{i, count - i};
    place.store(step(place), y);
  }
  hwy::FlushStream();
}

/// Folds a row into one vector: sum = step(place, sum). Uses four chains to hide latency and joins them in a fixed
/// order.
template <class D, class Step, class Join>
HWY_INLINE hn::Vec<D> Fold(D d, int64_t count, hn::Vec<D> start, Step&& step, Join&& join) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = start, s1 = start, s2 = start, s3 = start;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = step(Whole<D>{i}, s0);
    s1 = step(Whole<D>{i + lanes}, s1);
    s2 = step(Whole<D>{i + 2 * lanes}, s2);
    s3 = step(Whole<D>{i + 3 * lanes}, s3);
  }
  for (; i + lanes <= count; i += lanes) s0 = step(Whole<D>{i}, s0);
  if (i < count) s1 = step(Rest<D>{i, count - i}, s1);
  return join(join(s0, s1), join(s2, s3));
}

/// Folds from zero with step and returns the sum of all lanes.
template <class D, class Step>
HWY_INLINE hn::TFromD<D> FoldSum(D d, int64_t count, Step&& step) {
  const auto join = [](auto a, auto b) { return hn::Add(a, b); };
  return hn::GetLane(hn::SumOfLanes(d, Fold(d, count, hn::Zero(d), step, join)));
}

template <class D>
HWY_INLINE hn::TFromD<D> MaxOfRow(D d, const hn::TFromD<D>* x, int64_t count) {
  const auto lowest = -std::numeric_limits<hn::TFromD<D>>::infinity();
  const auto join = [](auto a, auto b) { return hn::Max(a, b); };
  const auto step = [x, lowest](auto place, auto max) { return hn::Max(max, place.load(x, lowest)); };
  return hn::GetLane(hn::MaxOfLanes(d, Fold(d, count, hn::Set(d, lowest), step, join)));
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SWEEP_INL_H_
