#include "ops/chunk_pair.h"

#include <algorithm>
#include <cstdlib>

#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// A view of [rows, numbers] as [1, rows, queries, keys] whose element [0, r, i, j] is the number of the distance from
/// query i to key j: numbers[r, j − i + queries − 1]. So memory is linear in the chunks' lengths.
Tensor by_distance(const Tensor& numbers, int64_t rows, const ChunkPair& pair) {
  const int64_t queries = pair.queries.size(), keys = pair.keys.size();
  const int64_t row = rows > 1 ? numbers.dim(1) : 0;
  return numbers.as_strided({1, rows, queries, keys}, {0, row, -1, 1}, numbers.offset() + queries - 1);
}

/// Calls set(n, distance) for the n-th number of by_distance().
template <class Set>
void for_each_distance(const ChunkPair& pair, Set&& set) {
  const int64_t least = pair.keys.begin - (pair.queries.end - 1);
  for (int64_t n = 0; n < pair.queries.size() + pair.keys.size() - 1; ++n) set(n, std::abs(least + n));
}

Tensor window_mask(const ChunkPair& pair, int64_t window) {
  std::vector<uint8_t> seen(static_cast<size_t>(pair.queries.size() + pair.keys.size() - 1));
  for_each_distance(pair, [&](int64_t n, int64_t distance) { seen[static_cast<size_t>(n)] = distance < window; });
  return by_distance(bool_tensor(seen, {1, std::ssize(seen)}), 1, pair);
}

/// −slope · |i − j| for each head.
Tensor alibi_bias(const ChunkPair& pair, const Tensor& slopes) {
  const int64_t heads = slopes.dim(0), numbers = pair.queries.size() + pair.keys.size() - 1;
  const std::vector<double> factors = slopes.to_vector<double>();
  std::vector<double> values(static_cast<size_t>(heads * numbers));
  for (int64_t head = 0; head < heads; ++head) {
    const double slope = factors[static_cast<size_t>(head)];
    for_each_distance(pair, [&](int64_t n, int64_t distance) {
      values[static_cast<size_t>(head * numbers + n)] = -slope * static_cast<double>(distance);
    });
  }
  return by_distance(to(from_span<double>(values, {heads, numbers}, kCpu), slopes.dtype()), heads, pair);
}

/// The lengths of each sequence within the keys' range; empty if no key is padding.
Tensor lengths_within(const Tensor& lengths, PositionRange keys) {
  std::vector<int64_t> counts = lengths.to_vector<int64_t>();
  for (int64_t& count : counts) count = std::clamp<int64_t>(count - keys.begin, 0, keys.size());
  const bool is_whole = std::ranges::all_of(counts, [&](int64_t count) { return count == keys.size(); });
  return is_whole ? Tensor{} : tensor(counts, lengths.shape());
}

/// Each pair draws from streams of its own.
RandomStream stream_of(const ChunkPair& pair, RandomStream random) {
  random = random.settled();
  const auto words =
      philox(random.seed, static_cast<uint64_t>(pair.queries.begin), static_cast<uint64_t>(pair.keys.begin));
  return {words[0] | static_cast<uint64_t>(words[1]) << 32, random.stream, nullptr};
}

/// Limits the pair of different chunks to the positions within the window, and hides what is outside of it. Returns
/// false if nothing remains.
bool apply_window(ChunkPair& pair, int64_t window) {
  PositionRange &queries = pair.queries, &keys = pair.keys;
  const PositionRange whole = queries;
  queries = {std::max(queries.begin, keys.begin - window + 1), std::min(queries.end, keys.end - 1 + window)};
  keys = {std::max(keys.begin, whole.begin - window + 1), std::min(keys.end, whole.end - 1 + window)};
  if (queries.size() <= 0 || keys.size() <= 0) return false;
  const int64_t farthest = std::max(queries.end - 1 - keys.begin, keys.end - 1 - queries.begin);
  if (farthest >= window) pair.options.mask = window_mask(pair, window);
  return true;
}

}  // namespace

std::optional<ChunkPair> chunk_pair(PositionRange queries, PositionRange keys, const AttentionOptions& options) {
  ChunkPair pair{.queries = queries, .keys = keys, .options = options};
  if (queries.size() == 0 || keys.size() == 0) return {};
  if (options.dropout > 0) pair.options.random = stream_of(pair, options.random);
  if (queries != keys) {  // kernels count positions from the start of a call, so that distances are given to them
    if (options.causal && keys.begin > queries.begin) return {};
    pair.options.causal = false;
    pair.options.window = 0;
    if (options.window > 0 && !apply_window(pair, options.window)) return {};
    if (options.alibi) {
      pair.options.alibi = {};
      pair.options.bias = alibi_bias(pair, options.alibi);
    }
  }
  if (options.lengths) {
    pair.options.lengths = lengths_within(options.lengths, pair.keys);
    const Tensor& rest = pair.options.lengths;
    if (rest && std::ranges::all_of(rest.data<const int64_t>(), [](int64_t count) { return count == 0; })) return {};
  }
  return pair;
}

}  // namespace attend
