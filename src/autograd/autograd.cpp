#include "attend/autograd/autograd.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "attend/autograd/constant_parameters.h"
#include "attend/tensor/creation.h"
#include "autograd/leaf_watch.h"
#include "backend/kernels.h"

namespace attend {

/// The op that computed a recorded tensor.
struct Node {
  const char* name = "";
  uint64_t sequence = 0;  // later results have larger numbers: descending order is a reverse topological order
  std::vector<std::shared_ptr<Variable>> inputs;
  BackwardFunction backward;
  bool adds_in_place = false;       // `backward` takes sums
  std::function<Tensor()> compute;  // of recomputed(), in place of `backward`
};

struct Variable {
  bool is_leaf = false;
  uint64_t sequence = 0;  // leaves only, see ConstantParameters
  Shape shape;
  DType dtype = DType::f32;
  Tensor grad;                 // leaves only
  std::shared_ptr<Node> node;  // results only
  ~Variable();
};

/// Destroys the graph iteratively. In a long chain, such as an RNN over thousands of steps, recursive destructors would
/// overflow the stack.
Variable::~Variable() {
  if (!node) return;
  std::vector<std::shared_ptr<Node>> doomed{std::move(node)};
  while (!doomed.empty()) {
    const std::shared_ptr<Node> current = std::move(doomed.back());
    doomed.pop_back();
    if (current.use_count() > 1) continue;
    current->backward = nullptr;
    current->compute = nullptr;
    for (auto& input : current->inputs) {
      if (input && input.use_count() == 1 && input->node) doomed.push_back(std::move(input->node));
    }
  }
}

namespace {

thread_local bool recording = true;
thread_local const LeafWatch::Ready* leaf_ready = nullptr;
thread_local uint64_t first_leaf = 0;        // older leaves are constants
thread_local const Storage* seed = nullptr;  // of the running backward()
std::atomic<uint64_t> next_sequence{1};

/// Counts down the uses of each leaf in a graph, and reports a leaf after its last use. Does nothing without a
/// LeafWatch.
class LeafUses {
 public:
  explicit LeafUses(const std::shared_ptr<Node>& last) {
    if (leaf_ready == nullptr || !last) return;
    std::unordered_set<const Node*> seen{last.get()};
    std::vector<const Node*> open{last.get()};
    while (!open.empty()) {
      const Node& node = *open.back();
      open.pop_back();
      if (node.compute) {
        left_.clear();
        return;
      }
      for (const auto& input : node.inputs) {
        if (!input) continue;
        if (input->is_leaf) ++left_[input.get()];
        if (input->node && seen.insert(input->node.get()).second) open.push_back(input->node.get());
      }
    }
  }

  void used_by(const Node& node) {
    if (left_.empty()) return;
    for (const auto& input : node.inputs) {
      if (!input || !input->is_leaf) continue;
      if (const auto found = left_.find(input.get()); found != left_.end() && --found->second == 0) {
        (*leaf_ready)(input.get());
      }
    }
  }

 private:
  std::unordered_map<const Variable*, int64_t> left_;
};

/// A tensor that may be written in place: the tensor itself if it is dense and owns its storage alone, else a copy.
Tensor writable(Tensor tensor) {
  const bool sole = tensor.storage().use_count() == 1 && tensor.is_contiguous();
  return sole ? tensor.detach() : tensor.clone();
}

/// Sums the gradients of one variable. Keeps the first gradient without a copy, and makes it writable when a second one
/// is added.
class Accumulator {
 public:
  void add(Tensor term) {
    if (!sum_) {
      sum_ = term.detach();
      return;
    }
    sum_ = writable(std::move(sum_));
    kernels(sum_.device()).elementwise.accumulate(term.view(), sum_.view());
  }
  const Tensor& sum() const { return sum_; }
  /// The sum so far, which may be written in place; empty if there is none.
  Tensor writable_sum() {
    if (sum_) sum_ = writable(std::move(sum_));
    return sum_;
  }

 private:
  Tensor sum_;
};

void add_to_leaf(Variable& leaf, Tensor gradient) {
  if (leaf.grad) {
    kernels(gradient.device()).elementwise.accumulate(gradient.view(), leaf.grad.view());
  } else {
    leaf.grad = writable(std::move(gradient));
  }
}

using Pending = std::map<uint64_t, std::pair<std::shared_ptr<Node>, Accumulator>, std::greater<>>;

void deliver(const std::shared_ptr<Variable>& variable, Tensor gradient, Pending& pending) {
  gradient = to(gradient, variable->dtype);
  if (variable->is_leaf) {
    add_to_leaf(*variable, std::move(gradient));
    return;
  }
  auto& entry = pending[variable->node->sequence];
  entry.first = variable->node;
  entry.second.add(std::move(gradient));
}

/// The sums of a node's inputs, for functions that add to them in place. On the CPU there are none: there, adding a
/// gradient is a separate step, which decides on its bits.
Gradients sums_of(const Node& node, Device device, Pending& pending) {
  Gradients sums(node.inputs.size());
  if (!node.adds_in_place || device == kCpu) return sums;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto& input = node.inputs[i];
    const auto before = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (!input || std::find(node.inputs.begin(), before, input) != before) continue;
    if (input->is_leaf) {
      sums[i] = input->grad;
    } else if (const auto found = pending.find(input->node->sequence); found != pending.end()) {
      sums[i] = found->second.second.writable_sum();
    }
  }
  return sums;
}

std::shared_ptr<Node> new_node(const char* name) {
  auto node = std::make_shared<Node>();
  node->name = name;
  node->sequence = next_sequence.fetch_add(1);
  return node;
}

/// A handle to y that is the result of the node.
Tensor recorded(const Tensor& y, std::shared_ptr<Node> node) {
  auto variable = std::make_shared<Variable>();
  variable->shape = y.shape();
  variable->dtype = y.dtype();
  variable->node = std::move(node);
  Tensor result = y.detach();
  result.set_variable(std::move(variable));
  return result;
}

/// While a Recording is alive, results are recorded on this thread, whatever NoGrad is around it.
class Recording {
 public:
  Recording() : before_(std::exchange(recording, true)) {}
  ~Recording() { recording = before_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  bool before_;
};

/// Records what a node of recomputed() stands for, and delivers its gradient there. The new nodes have higher numbers
/// than all pending ones, so gradients are added in the same order as without recomputation.
void expand(Node& node, const Tensor& gradient, Pending& pending) {
  Tensor y;
  {
    const Recording scope;
    y = std::exchange(node.compute, nullptr)();
  }
  if (y.variable()) deliver(y.variable(), gradient, pending);
}

}  // namespace

Tensor& set_requires_grad(Tensor& tensor, bool required) {
  require<ShapeError>(tensor && is_floating(tensor.dtype()), "set_requires_grad: expected a floating tensor, got ",
                      tensor.dtype());
  if (!required) {
    tensor.set_variable(nullptr);
  } else if (!tensor.variable()) {
    auto variable = std::make_shared<Variable>();
    variable->is_leaf = true;
    variable->sequence = next_sequence.fetch_add(1);
    variable->shape = tensor.shape();
    variable->dtype = tensor.dtype();
    tensor.set_variable(std::move(variable));
  }
  return tensor;
}

Tensor parameter(const Tensor& tensor) {
  Tensor result = tensor.detach();
  return set_requires_grad(result);
}

bool needs_grad(const Tensor& tensor) {
  const Variable* variable = tensor.variable().get();
  return recording && variable != nullptr && (!variable->is_leaf || variable->sequence >= first_leaf);
}

Tensor grad(const Tensor& tensor) { return tensor.variable() ? tensor.variable()->grad : Tensor{}; }

void set_grad(const Tensor& tensor, Tensor value) {
  require<ShapeError>(tensor.variable() && tensor.variable()->is_leaf,
                      "set_grad: expected a leaf that requires a gradient");
  require<ShapeError>(!value || value.shape() == tensor.shape(), "set_grad: expected shape ", tensor.shape(), ", got ",
                      value.shape());
  require<ShapeError>(!value || value.dtype() == tensor.dtype(), "set_grad: expected ", tensor.dtype(), ", got ",
                      value.dtype());
  require<DeviceError>(!value || value.device() == tensor.device(), "set_grad: expected a tensor on ", tensor.device(),
                       ", got one on ", value.device());
  // backward() adds to gradients in place, so they must be dense and writable.
  if (value && (value.storage()->is_read_only() || !value.is_contiguous())) value = value.clone();
  tensor.variable()->grad = std::move(value);
}

void zero_grad(const Tensor& tensor) {
  if (tensor.variable()) tensor.variable()->grad = {};
}

Tensor record_node(const char* name, const Tensor& y, const std::vector<Tensor>& inputs, BackwardFunction backward,
                   bool adds_in_place) {
  bool any = false;
  for (const Tensor& input : inputs) any = any || needs_grad(input);
  if (!any) return y;
  auto node = new_node(name);
  node->backward = std::move(backward);
  node->adds_in_place = adds_in_place;
  for (const Tensor& input : inputs) node->inputs.push_back(needs_grad(input) ? input.variable() : nullptr);
  return recorded(y, std::move(node));
}

Tensor recomputed(const Tensor& y, std::function<Tensor()> compute) {
  if (!recording) return y;
  auto node = new_node("recomputed");
  node->compute = std::move(compute);
  return recorded(y, std::move(node));
}

void backward(const Tensor& y, const Tensor& dy) {
  require<ShapeError>(y.variable() != nullptr, "backward: the tensor does not depend on any that requires a gradient");
  require<ShapeError>(dy || y.numel() == 1, "backward: a tensor of shape ", y.shape(), " needs an upstream gradient");
  require<ShapeError>(!dy || dy.shape() == y.shape(), "backward: upstream gradient has shape ", dy.shape(),
                      " but the tensor has ", y.shape());
  require<ShapeError>(!dy || dy.dtype() == y.dtype(), "backward: upstream gradient is ", dy.dtype(),
                      " but the tensor is ", y.dtype());
  require<DeviceError>(!dy || dy.device() == y.device(), "backward: upstream gradient is on ", dy.device(),
                       " but the tensor is on ", y.device());
  const NoGrad no_grad;
  Pending pending;
  const Tensor first = dy ? dy.detach() : ones(y.shape(), {y.dtype(), y.device()});
  const Storage* const outer = std::exchange(seed, dy ? nullptr : first.storage().get());
  const auto restore = [&](void*) { seed = outer; };
  const std::unique_ptr<void, decltype(restore)> scope(&pending, restore);
  LeafUses uses(y.variable()->node);
  deliver(y.variable(), first, pending);
  while (!pending.empty()) {
    const auto [node, gradient] = std::move(pending.begin()->second);
    pending.erase(pending.begin());
    if (node->compute) {
      expand(*node, gradient.sum(), pending);
      continue;
    }
    require<ShapeError>(node->backward != nullptr, "backward: the graph of ", node->name,
                        " was freed by an earlier backward()");
    const Gradients sums = sums_of(*node, gradient.sum().device(), pending);
    Gradients gradients = node->backward(gradient.sum(), sums);
    node->backward = nullptr;
    require<ShapeError>(gradients.size() == node->inputs.size(), node->name, ": backward returned ", gradients.size(),
                        " gradients for ", node->inputs.size(), " inputs");
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto& input = node->inputs[i];
      if (!input || !gradients[i]) continue;
      require<ShapeError>(gradients[i].shape() == input->shape, node->name, ": gradient ", i, " has shape ",
                          gradients[i].shape(), " but its input has ", input->shape);
      if (sums[i] && gradients[i].storage() == sums[i].storage()) continue;  // was added in place
      deliver(input, std::move(gradients[i]), pending);
    }
    uses.used_by(*node);
    node->inputs.clear();
  }
}

bool is_seed(const Tensor& dy) { return dy.storage().get() == seed && seed != nullptr; }

LeafWatch::LeafWatch(Ready ready) : ready_(std::move(ready)), before_(std::exchange(leaf_ready, &ready_)) {}
LeafWatch::~LeafWatch() { leaf_ready = before_; }

NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }

ConstantParameters::ConstantParameters() : before_(std::exchange(first_leaf, next_sequence.fetch_add(1))) {}
ConstantParameters::~ConstantParameters() { first_leaf = before_; }

}  // namespace attend
