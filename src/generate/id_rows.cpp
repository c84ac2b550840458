#include "generate/id_rows.h"

#include <algorithm>
#include <numeric>

#include "attend/tensor/creation.h"

namespace attend {

IdRows pad_rows(std::span<const std::vector<int32_t>> rows) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  return pad_rows(rows, all);
}

IdRows pad_rows(std::span<const std::vector<int32_t>> rows, std::span<const int64_t> chosen) {
  std::vector<int64_t> lengths;
  for (const int64_t row : chosen) lengths.push_back(std::ssize(rows[static_cast<size_t>(row)]));
  const auto [shortest, longest] = std::ranges::minmax(lengths);
  std::vector<int64_t> ids(chosen.size() * static_cast<size_t>(longest));
  for (size_t i = 0; i < chosen.size(); ++i) {
    std::ranges::copy(rows[static_cast<size_t>(chosen[i])], ids.begin() + static_cast<ptrdiff_t>(i) * longest);
  }
  const auto count = static_cast<int64_t>(chosen.size());
  return {.ids = tensor<int64_t>(ids, {count, longest}),
          .lengths = shortest == longest ? Tensor{} : tensor<int64_t>(lengths, {count})};
}

std::vector<Batch> group_by_length(std::span<const int64_t> lengths, const GroupOptions& options) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t i) { return lengths[static_cast<size_t>(i)]; };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<Batch> batches;
  for (const int64_t index : order) {
    const bool fits = !batches.empty() && std::ssize(batches.back()) < options.most &&
                      (std::ssize(batches.back()) + 1) * length(batches.back()[0]) <= options.tokens &&
                      (length(index) > 0 || length(batches.back()[0]) == 0);
    if (!fits) batches.emplace_back();
    batches.back().push_back(index);
  }
  return batches;
}

}  // namespace attend
