#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "models/step_graph.h"
#include "nn/device_paged_step.h"

namespace attend {

/// A step on the host.
struct DescribedStep {
  PagedStep step;
  std::vector<int64_t> ids;   ///< of all tokens, checked
  std::vector<int64_t> last;  ///< tokens whose logits are needed
};

/// The number of positions of the step's tables of pages. Few numbers occur, so that shapes repeat.
int64_t table_positions(const std::vector<const PageTable*>& tables);

/// Runs the steps of a generation with pages on a GPU. A step in which every row reads one token and needs its logits
/// is captured once for each number of rows and launched as a graph; the number of rows is rounded up, so that few
/// occur. The bits of a row do not depend on that.
class DeviceSteps {
 public:
  /// The logits of a step for the tokens `last`, i64 on the device, or for all tokens if it is empty, in `target` if
  /// that is given.
  using Forward = std::function<Tensor(DevicePagedStep& step, const Tensor& last, const Tensor& target)>;

  DeviceSteps(PagePool& pool, Device device, Forward forward)
      : pool_(pool), device_(device), forward_(std::move(forward)) {}

  /// The logits of the tokens `last`; empty if there are none. `may_repeat`: the step may be captured. Fills
  /// step.traced.
  Tensor run(DescribedStep& described, bool may_repeat);

 private:
  struct Repeated {
    Tensor numbers;
    StepGraph graph;
  };
  Tensor repeat(const DescribedStep& described);

  PagePool& pool_;
  Device device_;
  Forward forward_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, Repeated> repeated_;  // by rows and widths of the tables
  int64_t version_ = 0;                                                 // of the pool
  std::vector<int64_t> numbers_;                                        // of the last step
};

}  // namespace attend
