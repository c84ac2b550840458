#pragma once

#include <cstdint>

namespace attend {

/// A learning rate for each step, counted from 1. Warm-up rises evenly and reaches the peak at step `warmup`.
struct Schedule {
  enum class Kind {
    constant,  ///< lr after the warm-up
    linear,    ///< from lr evenly down to lr_end at step `total`
    cosine,    ///< the same along half a cosine
    noam       ///< lr · dim^−½ · min(step^−½, step · warmup^−3/2) ("Attention Is All You Need" §5.3)
  };
  Kind kind = Kind::constant;
  double lr = 1e-3;
  double lr_end = 0;
  int64_t warmup = 0;
  int64_t total = 0;
  int64_t dim = 0;

  double at(int64_t step) const;
};

struct NoamOptions {
  int64_t dim = 512;
  int64_t warmup = 4000;
  double factor = 1;
};
Schedule noam_schedule(const NoamOptions& options);

}  // namespace attend
