#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"

namespace attend::cpu {

void multiply(ConstView a, ConstView b, View c, const MatmulOptions& options) {
  with_float(c.dtype, "matmul", [&](auto type) {
    using T = decltype(type);
    const int64_t r = c.rank(), m = c.shape[r - 2], n = c.shape[r - 1], k = a.shape[r - 1];
    Shape batch;
    Strides sa, sb, sc;
    for (int64_t i = 0; i + 2 < r; ++i) {
      batch.push_back(c.shape[i]);
      sa.push_back(a.strides[i]);
      sb.push_back(b.strides[i]);
      sc.push_back(c.strides[i]);
    }
    const Loop<3> loop(batch, {sa, sb, sc});
    parallel_for(loop.outer * loop.inner, [&](int64_t index) {
      auto offset = loop.offsets(index / loop.inner);
      for (size_t i = 0; i < 3; ++i) offset[i] += index % loop.inner * loop.inner_stride(i);
      const T* pa = static_cast<const T*>(a.data) + offset[0];
      const T* pb = static_cast<const T*>(b.data) + offset[1];
      T* pc = static_cast<T*>(c.data) + offset[2];
      for (int64_t i = 0; i < m; ++i) {
        T* row = pc + i * c.strides[r - 2];
        if (!options.accumulate) std::fill_n(row, n, T{0});
        for (int64_t p = 0; p < k; ++p) {
          const T v = pa[i * a.strides[r - 2] + p * a.strides[r - 1]];
          for (int64_t j = 0; j < n; ++j) row[j] += v * pb[p * b.strides[r - 2] + j * b.strides[r - 1]];
        }
        if (options.bias) {
          for (int64_t j = 0; j < n; ++j) row[j] += static_cast<const T*>(options.bias.data)[j * options.bias.strides[0]];
        }
      }
    });
  });
}

}  // namespace attend::cpu
