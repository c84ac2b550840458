#pragma once

#include <bit>
#include <map>
#include <tuple>
#include <vector>

#include "backend/cpu/attention/attention_slice.h"

// How the backward pass is cut into tasks. The cut depends on shapes alone, so that every sum has one fixed order.
namespace attend::cpu {

/// All queries of one group of heads against keys [begin, end) of one sequence.
struct GradientUnit {
  SequenceSpan span;
  int64_t kv_head = 0;
  int64_t chunk = 0;
  KeyRange keys;
};

struct GradientPlan {
  int64_t chunks = 1;                            ///< parts of the keys, each with its own partial sums of dq
  std::vector<std::vector<GradientUnit>> tasks;  ///< a task runs its units in order, as they may share a bias gradient
};

/// With few heads, also splits the keys, at the price of a copy of dq for each part beyond the first, up to
/// kPartialBytes in all. The number of parts is a power of two, as the number of threads is on most machines.
inline GradientPlan plan_gradients(const AttentionProblem& problem, const View& dbias, int64_t key_block) {
  constexpr int64_t kWantedUnits = 8, kPartialBytes = int64_t{32} << 20;
  const std::vector<SequenceSpan> spans = sequences_of(problem);
  const int64_t kv_heads = problem.k.shape[1];
  const bool shared_batch = dbias && dbias.strides[0] == 0, shared_head = dbias && dbias.strides[1] == 0;
  const int64_t units =  // units that can run in parallel
      std::max<int64_t>(1, (shared_batch ? 1 : static_cast<int64_t>(spans.size())) * (shared_head ? 1 : kv_heads));
  const int64_t dq_bytes =
      std::max<int64_t>(1, problem.q.shape.numel() * static_cast<int64_t>(size_of(problem.q.dtype)));
  const int64_t blocks = (problem.k.shape[2] + key_block - 1) / key_block;
  GradientPlan plan;
  plan.chunks = std::min({(kWantedUnits + units - 1) / units, 1 + kPartialBytes / dq_bytes, (blocks + 3) / 4});
  plan.chunks = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, plan.chunks))));
  if (dbias && dbias.strides[3] == 0) plan.chunks = 1;  // all keys add to the same element

  const bool apart = !shared_batch && !shared_head;  // each unit is a task of its own
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<GradientUnit>> groups;
  for (int64_t s = 0; s < static_cast<int64_t>(spans.size()); ++s) {
    const SequenceSpan& span = spans[static_cast<size_t>(s)];
    const int64_t keys = span.k_end - span.k_begin;
    const int64_t per_chunk = ((keys + key_block - 1) / key_block + plan.chunks - 1) / plan.chunks * key_block;
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
        const KeyRange range{std::min(chunk * per_chunk, keys), std::min((chunk + 1) * per_chunk, keys)};
        const GradientUnit unit{span, head, chunk, range};
        if (apart)
          plan.tasks.push_back({unit});
        else
          groups[{shared_batch ? 0 : s, shared_head ? 0 : head, chunk}].push_back(unit);
      }
    }
  }
  for (auto& [key, members] : groups) plan.tasks.push_back(std::move(members));
  return plan;
}

}  // namespace attend::cpu
