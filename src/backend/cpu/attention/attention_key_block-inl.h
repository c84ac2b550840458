// A packed block of keys and values, and the sums over the queries that stream past it. Included once for each
// instruction set.
#if defined(ATTEND_ATTENTION_KEY_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_ATTENTION_KEY_BLOCK_INL_H_
#undef ATTEND_ATTENTION_KEY_BLOCK_INL_H_
#else
#define ATTEND_ATTENTION_KEY_BLOCK_INL_H_
#endif

#include "backend/cpu/attention/attention_gradient-inl.h"
#include "backend/cpu/memory.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kQueryBlock = 64;

template <class T>
HWY_INLINE int64_t PanelsPerBlock() {
  return std::max<int64_t>(1, 96 / PanelWidth<T>());
}

template <class T>
int64_t PaddedWidth(int64_t dim) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return (dim + lanes - 1) / lanes * lanes;
}

/// Rows of dq to add to: the output itself, or scratch memory with padded rows.
template <class T>
struct QueryGradients {
  T* data = nullptr;
  int64_t row = 0;
};

/// Working memory for one block of keys while queries stream past.
template <class T>
struct KeyBlockScratch {
  KeyBlockScratch(int64_t dim, int64_t value_dim)
      : width(PanelWidth<T>()),
        panels(PanelsPerBlock<T>()),
        padded(PaddedWidth<T>(dim)),
        keys_turned(panels * dim * width),
        values_turned(panels * value_dim * width),
        key_rows(panels * width * padded),
        dk_turned(panels * dim * width),
        dv_turned(panels * value_dim * width),
        weights(panels * kQueryBlock * width),
        gradients(panels * kQueryBlock * width),
        row(3 * width) {}
  int64_t width, panels, padded;
  Scratch<T> keys_turned, values_turned;  ///< [panel][dim][width]
  Scratch<T> key_rows;                    ///< [key][padded]
  Scratch<T> dk_turned, dv_turned;
  Scratch<T> weights, gradients;  ///< [panel][query][width]
  Scratch<T> row;                 ///< extra, factors, bias gradients of one row
};

/// Packs only the panels that hold a key: short sequences need one of four.
template <class T>
void PackKeys(const HeadSlice<T>& head, KeyRange keys, const KeyBlockScratch<T>& block) {
  const int64_t panels = (keys.end - keys.begin + block.width - 1) / block.width;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = keys.begin + p * block.width, count = std::min(keys.end - first, block.width);
    T* turned = block.keys_turned.data() + p * head.dim * block.width;
    T* values = block.values_turned.data() + p * head.value_dim * block.width;
    if (count < block.width) {
      std::fill_n(turned, head.dim * block.width, T{0});
      std::fill_n(values, head.value_dim * block.width, T{0});
    }
    TransposeScaled(head.k + first * head.k_row, head.k_row, count, head.dim, head.scale, turned, block.width);
    TransposeScaled(head.v + first * head.v_row, head.v_row, count, head.value_dim, T{1}, values, block.width);
  }
  T* row = block.key_rows.data();
  for (int64_t j = keys.begin; j < keys.end; ++j, row += block.padded) {
    for (int64_t c = 0; c < head.dim; ++c) row[c] = head.scale * head.k[j * head.k_row + c];
    std::fill(row + head.dim, row + block.padded, T{0});
  }
  std::fill(row, block.key_rows.data() + panels * block.width * block.padded, T{0});
  std::fill_n(block.dk_turned.data(), panels * head.dim * block.width, T{0});
  std::fill_n(block.dv_turned.data(), panels * head.value_dim * block.width, T{0});
}

/// The upstream gradient, statistics and bias gradient of one head.
template <class T>
struct Upstream {
  const T* dy = nullptr;
  int64_t dy_row = 0;
  const T *lse = nullptr, *delta = nullptr;  ///< one for each query
  T* dbias = nullptr;
  int64_t dbias_row = 0, dbias_key = 0;
  bool q_finite = true, dy_finite = true;  ///< if false, factors of 0 must be skipped: 0 · NaN = NaN
};

/// Prefetches the same keys of a row a few rows further on: rows of a bias lie far apart, so each row would miss.
template <class T>
HWY_INLINE void PrefetchAhead(const T* bias, int64_t row, int64_t query, int64_t key, int64_t count) {
  constexpr int64_t kRowsAhead = 12;
  if (bias == nullptr || row == 0) return;
  const T* ahead = bias + (query + kRowsAhead) * row + key;  // only a hint: an address beyond the end is harmless
  for (int64_t j = 0; j < count; j += 64 / static_cast<int64_t>(sizeof(T))) hwy::Prefetch(ahead + j);
  hwy::Prefetch(ahead + count - 1);
}

template <class T>
void AddBiasGradients(const Upstream<T>& up, int64_t query, int64_t key, int64_t count, const T* HWY_RESTRICT row) {
  T* HWY_RESTRICT out = up.dbias + query * up.dbias_row + key * up.dbias_key;
  if (up.dbias_key == 1) {
    for (int64_t j = 0; j < count; ++j) out[j] += row[j];
  } else {
    for (int64_t j = 0; j < count; ++j) out[j * up.dbias_key] += row[j];
  }
}

/// Multiplies with the tile that has `vectors` vectors of keys.
template <class T>
void MultiplyPanel(int vectors, const TileProduct<T>& product, int64_t rows) {
  if (vectors == 3) return MultiplyRows<3>(product, rows);
  if (vectors == 2) return MultiplyRows<2>(product, rows);
  MultiplyRows<1>(product, rows);
}

/// Computes the weights and score gradients of `queries` against the keys of `panels`.
template <class T>
void WeighQueries(const HeadSlice<T>& head, const Upstream<T>& up, KeyRange keys, KeyRange queries, KeyRange panels,
                  const KeyBlockScratch<T>& block) {
  const int64_t width = block.width, count = queries.end - queries.begin;
  const bool extras = head.mask || head.bias;
  const bool options = head.softcap > 0 || head.slope != 0 || head.dropout > 0 || up.dbias != nullptr;
  T *extra = block.row.data(), *factors = extra + width, *dbias = factors + width;
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    T* weights = block.weights.data() + p * kQueryBlock * width;
    T* gradients = block.gradients.data() + p * kQueryBlock * width;
    const int64_t key = keys.begin + p * width, present = std::min(width, keys.end - key);
    const int vectors = PanelVectors<T>(present);
    MultiplyPanel<T>(vectors,
                     {.in = {head.q + queries.begin * head.q_row, head.q_row, 1,
                             block.keys_turned.data() + p * head.dim * width, width},
                      .depth = head.dim,
                      .c = weights,
                      .c_row = width},
                     count);
    MultiplyPanel<T>(vectors,
                     {.in = {up.dy + queries.begin * up.dy_row, up.dy_row, 1,
                             block.values_turned.data() + p * head.value_dim * width, width},
                      .depth = head.value_dim,
                      .c = gradients,
                      .c_row = width},
                     count);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t i = queries.begin + r;
      const KeyRange seen = head.visible(i);
      GradientRow<T> row{
          .query = i,
          .key = key,
          .vectors = vectors,
          .seen = {std::clamp<int64_t>(seen.begin - key, 0, width), std::clamp<int64_t>(seen.end - key, 0, present)},
          .lse = up.lse[i],
          .delta = up.delta[i],
          .weights = weights + r * width,
          .gradients = gradients + r * width};
      if (extras) {
        PrefetchAhead(head.bias, head.bias_row, i, key, present);
        std::fill(extra + present, extra + width, T{0});
        ExtraRow(head, i, key, present, extra);
        row.extra = extra;
      }
      if (head.dropout > 0) {
        KeepFactors(head, i, key, vectors * (width / kTileVectors), factors);
        row.factors = factors;
      }
      if (up.dbias != nullptr) {
        PrefetchAhead<T>(up.dbias, up.dbias_row, i, key, present);
        row.bias_gradients = dbias;
      }
      const bool hides = extras || row.seen.begin > 0 || row.seen.end < width;
      if (options && hides)
        SoftmaxGradient<true, true>(head, row);
      else if (options)
        SoftmaxGradient<false, true>(head, row);
      else if (hides)
        SoftmaxGradient<true, false>(head, row);
      else
        SoftmaxGradient<false, false>(head, row);
      if (up.dbias != nullptr) AddBiasGradients(up, i, key, present, dbias);
    }
  }
}

/// dq += dS · K where some key is not finite. Skips gradients of 0, because 0 · NaN = NaN.
template <class T>
HWY_NOINLINE void AddKeysWithCare(KeyRange keys, KeyRange queries, KeyRange panels, const KeyBlockScratch<T>& block,
                                  const QueryGradients<T>& dq) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const T* ds = block.gradients.data() + (p * kQueryBlock + i - queries.begin) * block.width;
      const int64_t present = std::min(block.width, keys.end - keys.begin - p * block.width);
      for (int64_t j = 0; j < present; ++j) {
        if (ds[j] == 0) continue;
        const T* key = block.key_rows.data() + (p * block.width + j) * block.padded;
        for (int64_t c = 0; c < block.padded; c += lanes) {
          T* sum = dq.data + i * dq.row + c;
          hn::StoreU(hn::MulAdd(hn::Set(d, ds[j]), hn::LoadU(d, key + c), hn::LoadU(d, sum)), d, sum);
        }
      }
    }
  }
}

/// dq[queries] += dS · K, three vectors of features at a time: first the full panels, then the partial one.
template <class T>
void AddQueryGradients(KeyRange keys, KeyRange queries, KeyRange panels, const KeyBlockScratch<T>& block,
                       const QueryGradients<T>& dq) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t width = block.width, whole = std::min(panels.end, (keys.end - keys.begin) / width);
  const auto add = [&](int64_t panel, int64_t segments, int64_t depth) {
    for (int64_t c = 0; c < block.padded; c += kTileVectors * lanes) {
      const int64_t left = std::min<int64_t>(kTileVectors, (block.padded - c) / lanes);
      MultiplyPanel<T>(static_cast<int>(left),
                       {.in = {block.gradients.data() + panel * kQueryBlock * width, width, 1,
                               block.key_rows.data() + panel * width * block.padded + c, block.padded},
                        .depth = depth,
                        .segments = segments,
                        .a_segment = kQueryBlock * width,
                        .b_segment = width * block.padded,
                        .c = dq.data + queries.begin * dq.row + c,
                        .c_row = dq.row,
                        .add = true},
                       queries.end - queries.begin);
    }
  };
  if (panels.begin < whole) add(panels.begin, whole - panels.begin, width);
  if (whole < panels.end) add(whole, 1, keys.end - keys.begin - whole * width);
}

/// A range of rows of q or dO.
template <class T>
struct QueryRows {
  const T* data = nullptr;
  int64_t stride = 0, count = 0, dim = 0;
  bool finite = true;
};

/// out[dim][key] += Σ_rows row[dim] · factors[row][key]: dV from dO and the weights, dK from q and the score gradients.
/// If a row is not finite, factors of 0 are skipped.
template <class T>
void AddTurned(const QueryRows<T>& rows, int vectors, const T* factors, T* out) {
  const int64_t width = PanelWidth<T>();
  if (rows.finite) {
    MultiplyPanel<T>(
        vectors,
        {.in = {rows.data, 1, rows.stride, factors, width}, .depth = rows.count, .c = out, .c_row = width, .add = true},
        rows.dim);
    return;
  }
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < rows.dim; ++c) {
    for (int64_t n = 0; n < vectors * lanes; n += lanes) {
      auto sum = hn::LoadU(d, out + c * width + n);
      for (int64_t r = 0; r < rows.count; ++r) {
        const auto factor = hn::LoadU(d, factors + r * width + n);
        const auto more = hn::MulAdd(hn::Set(d, rows.data[r * rows.stride + c]), factor, sum);
        sum = hn::IfThenElse(hn::Eq(factor, hn::Zero(d)), sum, more);
      }
      hn::StoreU(sum, d, out + c * width + n);
    }
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_ATTENTION_KEY_BLOCK_INL_H_
