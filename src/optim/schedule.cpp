#include "attend/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attend/base/error.h"

namespace attend {
namespace {

double noam(const Schedule& schedule, double step) {
  require<ShapeError>(schedule.dim >= 1 && schedule.warmup >= 1, "schedule: noam needs positive dim and warmup, got ",
                      schedule.dim, " and ", schedule.warmup);
  const auto dim = static_cast<double>(schedule.dim), warmup = static_cast<double>(schedule.warmup);
  return schedule.lr / std::sqrt(dim) * std::min(1 / std::sqrt(step), step * std::pow(warmup, -1.5));
}

/// Fraction of the decay that is complete, in [0, 1].
double progress(const Schedule& schedule, int64_t step) {
  require<ShapeError>(schedule.total > schedule.warmup, "schedule: total must be larger than warmup, got ",
                      schedule.total, " and ", schedule.warmup);
  const double done =
      static_cast<double>(step - schedule.warmup) / static_cast<double>(schedule.total - schedule.warmup);
  return std::clamp(done, 0.0, 1.0);
}

}  // namespace

double Schedule::at(int64_t step) const {
  require<ShapeError>(step >= 1, "schedule: steps are counted from 1, got ", step);
  if (kind == Kind::noam) return noam(*this, static_cast<double>(step));
  if (step < warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  if (kind == Kind::linear) return lr_end + (lr - lr_end) * (1 - progress(*this, step));
  if (kind == Kind::cosine)
    return lr_end + (lr - lr_end) * 0.5 * (1 + std::cos(std::numbers::pi * progress(*this, step)));
  return lr;
}

Schedule noam_schedule(const NoamOptions& options) {
  return {.kind = Schedule::Kind::noam, .lr = options.factor, .warmup = options.warmup, .dim = options.dim};
}

}  // namespace attend
