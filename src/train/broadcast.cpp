#include "train/broadcast.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

constexpr int64_t kMessage = int64_t{1} << 28;  // bytes

}  // namespace

void broadcast_weights(distributed::Group& group, const std::vector<NamedTensor>& tensors) {
  if (group.size() == 1) return;
  const bool is_first = group.rank() == 0;
  std::vector<int64_t> counts(static_cast<size_t>(group.size()), 0);
  for (const auto& [name, tensor] : tensors) {
    const Tensor host = to(tensor.detach(), kCpu).clone();
    auto* bytes = static_cast<std::byte*>(host.raw());
    const int64_t size = host.numel() * static_cast<int64_t>(size_of(host.dtype()));
    std::vector<std::byte> arrived(static_cast<size_t>(std::min(size, kMessage)));
    for (int64_t at = 0; at < size; at += kMessage) {
      counts[0] = std::min(kMessage, size - at);
      const auto count = static_cast<size_t>(counts[0]);
      group.start_all_gather({bytes + at, is_first ? count : 0}, {arrived.data(), count}, counts)->wait();
      if (!is_first) std::copy_n(arrived.begin(), count, bytes + at);
    }
    if (!is_first) copy_values(host, tensor.detach());
  }
}

std::vector<double> divided(int64_t count, int64_t width,
                            const std::function<std::vector<double>(int64_t task)>& work) {
  distributed::Group& group = distributed::world();
  const int64_t ranks = group.size(), rounds = (count + ranks - 1) / ranks;
  std::vector<double> mine;
  for (int64_t task = group.rank(); task < count; task += ranks) {
    std::ranges::copy(work(task), std::back_inserter(mine));
  }
  mine.resize(static_cast<size_t>(rounds * width), 0.0);
  const std::vector<double> all = distributed::all_gather(group, mine);
  std::vector<double> ordered;
  for (int64_t task = 0; task < count; ++task) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>((task % ranks * rounds + task / ranks) * width);
    ordered.insert(ordered.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return ordered;
}

namespace {

/// The part of [0, count) that a rank gets.
std::pair<int64_t, int64_t> range_of(int64_t count, int64_t rank) {
  const int64_t ranks = distributed::world().size();
  return {count * rank / ranks, count * (rank + 1) / ranks};
}

}  // namespace

std::vector<double> divided_range(int64_t count, int64_t width,
                                  const std::function<std::vector<double>(int64_t begin, int64_t end)>& work) {
  distributed::Group& group = distributed::world();
  const auto [first, last] = range_of(count, group.rank());
  const std::vector<double> mine = first < last ? work(first, last) : std::vector<double>{};
  require<ShapeError>(std::ssize(mine) == (last - first) * width, "divided_range: expected ", (last - first) * width,
                      " numbers, got ", mine.size());
  std::vector<double> all(static_cast<size_t>(count * width));
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const auto [begin, end] = range_of(count, rank);
    counts.push_back((end - begin) * width * static_cast<int64_t>(sizeof(double)));
  }
  group.start_all_gather(distributed::bytes_of(mine), distributed::writable_bytes_of(all), counts)->wait();
  return all;
}

std::vector<std::string> divided_range(
    int64_t count, const std::function<std::vector<std::string>(int64_t begin, int64_t end)>& work) {
  distributed::Group& group = distributed::world();
  const auto [first, last] = range_of(count, group.rank());
  return distributed::all_gather(group, first < last ? work(first, last) : std::vector<std::string>{});
}

}  // namespace attend
