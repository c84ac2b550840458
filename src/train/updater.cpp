#include "train/updater.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

constexpr int64_t kMessage = int64_t{1} << 25;  // bytes of parameters that are gathered at once

/// Rows [begin, end) of the first axis of a dense tensor, as a view.
Tensor row_view(const Tensor& tensor, int64_t begin, int64_t end) {
  Shape shape = tensor.shape();
  shape[0] = end - begin;
  const int64_t width = tensor.numel() / std::max<int64_t>(tensor.dim(0), 1);
  return tensor.detach().as_strided(shape, contiguous_strides(shape), tensor.offset() + begin * width);
}

}  // namespace

std::pair<int64_t, int64_t> owned_rows(int64_t rows, int64_t rank, int64_t processes) {
  return {rows * rank / processes, rows * (rank + 1) / processes};
}

/// The rows of each parameter that this process owns, as parameters of their own.
std::vector<NamedTensor> Updater::divide(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> own;
  for (const auto& [name, tensor] : parameters) {
    require<ShapeError>(tensor.rank() >= 1 && tensor.is_contiguous(), "--shard optimizer: ", name,
                        " is a scalar or not dense");
    whole_.push_back(tensor);
    const auto [begin, end] = owned_rows(tensor.dim(0), group_->rank(), group_->size());
    rows_.push_back({name, tensor.dim(0), begin, end});
    if (begin == end) continue;
    own.emplace_back(name, parameter(row_view(tensor, begin, end)));
    owned_.emplace_back(tensor, own.back().second);
  }
  return own;
}

Updater::Updater(std::vector<NamedTensor> parameters, const TrainingOptions& options, distributed::Group& group) {
  std::set<const Variable*> seen;  // tied parameters are one
  std::erase_if(parameters,
                [&](const NamedTensor& entry) { return !seen.insert(entry.second.variable().get()).second; });
  if (options.shard == ShardedState::optimizer && group.size() > 1) {
    group_ = &group;
    parameters = divide(parameters);
  } else {
    for (const auto& [name, tensor] : parameters) {
      const int64_t rows = tensor.rank() > 0 ? tensor.dim(0) : 1;
      rows_.push_back({name, rows, 0, rows});
    }
  }
  if (options.optimizer == OptimizerKind::sgd) {
    sgd_.emplace(std::move(parameters), SgdConfig{.momentum = options.momentum, .weight_decay = options.weight_decay});
    return;
  }
  adam_.emplace(std::move(parameters), AdamConfig{.beta1 = options.beta1,
                                                  .beta2 = options.beta2,
                                                  .eps = 1e-9,
                                                  .weight_decay = options.weight_decay,
                                                  .decoupled = options.optimizer == OptimizerKind::adamw,
                                                  .decay_matrices_only = true});
}

void Updater::set_rate(double lr) { (adam_ ? adam_->config().lr : sgd_->config().lr) = lr; }

void Updater::step(const GradNormLimit& limit, const Tensor& rates) {
  if (group_) take_gradients();
  if (adam_) adam_->step(limit, rates);
  if (sgd_) sgd_->step(limit, rates);
  if (group_) gather_rows();
}

void Updater::take_gradients() const {
  for (const auto& [tensor, own] : owned_) {
    const Tensor gradient = grad(tensor);
    if (!gradient) continue;
    const auto [begin, end] = owned_rows(tensor.dim(0), group_->rank(), group_->size());
    set_grad(own, row_view(gradient, begin, end));
  }
}

/// Brings the updated rows of all processes together. Several small parameters travel in one message: the rows of rank
/// 0 of all of them, then those of rank 1, and so on.
void Updater::gather_rows() const {
  for (const auto& [tensor, own] : owned_) zero_grad(own);
  const auto ranks = static_cast<size_t>(group_->size()), mine = static_cast<size_t>(group_->rank());
  for (size_t first = 0; first < whole_.size();) {
    size_t last = first;
    int64_t bytes = 0;
    while (last < whole_.size() && (last == first || bytes < kMessage)) {
      bytes += whole_[last].numel() * static_cast<int64_t>(size_of(whole_[last].dtype()));
      ++last;
    }
    std::vector<int64_t> counts(ranks, 0);
    std::vector<std::byte> sent, all(static_cast<size_t>(bytes));
    // visit(rank, parameter, offset in bytes, bytes) for every piece, in the order of the message
    const auto for_each_piece = [&](size_t rank, auto&& visit) {
      for (size_t i = first; i < last; ++i) {
        const auto [begin, end] = owned_rows(whole_[i].dim(0), static_cast<int64_t>(rank), group_->size());
        const int64_t width = whole_[i].numel() / std::max<int64_t>(whole_[i].dim(0), 1) *
                              static_cast<int64_t>(size_of(whole_[i].dtype()));
        visit(i, begin * width, (end - begin) * width);
      }
    };
    std::vector<Tensor> hosts;
    for (size_t i = first; i < last; ++i) hosts.push_back(to(whole_[i].detach(), kCpu));
    const auto at = [&](size_t i) { return static_cast<std::byte*>(hosts[i - first].raw()); };
    for (size_t rank = 0; rank < ranks; ++rank) {
      for_each_piece(rank, [&](size_t, int64_t, int64_t size) { counts[rank] += size; });
    }
    for_each_piece(mine, [&](size_t i, int64_t offset, int64_t size) {
      sent.insert(sent.end(), at(i) + offset, at(i) + offset + size);
    });
    group_->start_all_gather(sent, all, counts)->wait();
    const std::byte* next = all.data();
    for (size_t rank = 0; rank < ranks; ++rank) {
      for_each_piece(rank, [&](size_t i, int64_t offset, int64_t size) {
        if (rank != mine) std::memcpy(at(i) + offset, next, static_cast<size_t>(size));
        next += size;
      });
    }
    for (size_t i = first; i < last; ++i) {
      if (whole_[i].device() != kCpu) copy_values(hosts[i - first], whole_[i].detach());
    }
    first = last;
  }
}

std::vector<double> Updater::rates() const { return adam_ ? adam_->rates() : sgd_->rates(); }

std::vector<int64_t> Updater::steps() const { return adam_ ? adam_->steps() : std::vector<int64_t>{}; }

void Updater::set_steps(const std::vector<int64_t>& steps) {
  if (adam_) adam_->set_steps(steps);
}

std::map<std::string, Tensor> Updater::state() const { return adam_ ? adam_->state() : sgd_->state(); }

void Updater::load_state(const std::map<std::string, Tensor>& state) {
  if (adam_) adam_->load_state(state);
  if (sgd_) sgd_->load_state(state);
}

}  // namespace attend
