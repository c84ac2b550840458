#pragma once

#include <optional>

#include "attend/ops/attention.h"
#include "ops/context_part.h"

namespace attend {

/// The attention of one chunk's queries to another chunk's keys, as a call of attention().
struct ChunkPair {
  PositionRange queries, keys;  ///< those that may see each other
  AttentionOptions options;
};

/// The pair of two chunks that are the same or have no position in common. Empty if no query sees a key. `options` are
/// those of the whole sequence, without mask, bias and packed sequences.
std::optional<ChunkPair> chunk_pair(PositionRange queries, PositionRange keys, const AttentionOptions& options);

}  // namespace attend
