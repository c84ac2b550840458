#pragma once

#include <functional>

#include "attend/autograd/autograd.h"

namespace attend {

/// While a LeafWatch is alive, backward() on this thread calls `ready` with the variable of a leaf as soon as the leaf
/// can receive no further gradient. Leaves that no gradient reaches are not reported; neither is any leaf if the graph
/// has recomputed() nodes, whose leaves are unknown until they run.
class LeafWatch {
 public:
  using Ready = std::function<void(const Variable* leaf)>;
  explicit LeafWatch(Ready ready);
  ~LeafWatch();
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

 private:
  Ready ready_;
  const Ready* before_;
};

}  // namespace attend
