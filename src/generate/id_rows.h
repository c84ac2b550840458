#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// A batch of sequences of different lengths.
struct IdRows {
  Tensor ids;      ///< i64 [rows, longest], padded at the end with 0
  Tensor lengths;  ///< i64 [rows]; empty if all rows have the same length
};
IdRows pad_rows(std::span<const std::vector<int32_t>> rows);
/// A batch of the rows with the given indices.
IdRows pad_rows(std::span<const std::vector<int32_t>> rows, std::span<const int64_t> chosen);

/// The indices of the sequences in a batch.
using Batch = std::vector<int64_t>;
struct GroupOptions {
  int64_t tokens = 4096;  ///< maximum batch size in tokens, including padding: sequences · longest length
  int64_t most = 512;     ///< maximum number of sequences per batch
};
/// Groups sequences of similar length into batches, longest first. Each sequence is in exactly one batch. A sequence
/// longer than `tokens` is a batch of its own. Empty sequences are never batched with others.
std::vector<Batch> group_by_length(std::span<const int64_t> lengths, const GroupOptions& options);

}  // namespace attend
