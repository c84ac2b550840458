#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "attend/tensor/tensor.h"
#include "distributed/group.h"

// What the processes of a training tell each other outside of updates.
namespace attend {

/// Copies the values of the first process's tensors to all other processes. Collective.
void broadcast_weights(distributed::Group& group, const std::vector<NamedTensor>& tensors);

/// Divides `count` tasks among the processes of world(). Each task returns `width` numbers. Returns the numbers of all
/// tasks, in order, in every process. Collective.
std::vector<double> divided(int64_t count, int64_t width, const std::function<std::vector<double>(int64_t task)>& work);

/// Divides the range [0, count) among the processes of world(). work(begin, end) returns `width` numbers, or one text,
/// for each index. Returns those of all indices, in order, in every process. Collective.
std::vector<double> divided_range(int64_t count, int64_t width,
                                  const std::function<std::vector<double>(int64_t begin, int64_t end)>& work);
std::vector<std::string> divided_range(int64_t count,
                                       const std::function<std::vector<std::string>(int64_t begin, int64_t end)>& work);

}  // namespace attend
