#pragma once

#include <cstdint>

namespace attend {

/// The learning rate of each step; the first step is 1. During the warm-up the rate rises linearly, and reaches its
/// peak at step `warmup`.
struct Schedule {
  enum class Kind {
    constant,  ///< lr after the warm-up
    linear,    ///< linear decay from lr to lr_end at step `total`
    cosine,    ///< decay from lr to lr_end at step `total` along half a cosine
    noam       ///< lr · dim^−½ · min(step^−½, step · warmup^−3/2) ("Attention Is All You Need" §5.3)
  };
  Kind kind = Kind::constant;
  double lr = 1e-3;
  double lr_end = 0;
  int64_t warmup = 0;  ///< number of warm-up steps
  int64_t total = 0;   ///< number of all steps, for linear and cosine; larger than warmup
  int64_t dim = 0;     ///< model width, for noam

  /// The learning rate of a step. Throws ShapeError if the step is below 1 or the schedule lacks a field its kind
  /// needs.
  double at(int64_t step) const;
};

struct NoamOptions {
  int64_t dim = 512;
  int64_t warmup = 4000;
  double factor = 1;
};
Schedule noam_schedule(const NoamOptions& options);

}  // namespace attend
