#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// Sequences of different lengths as a batch.
struct IdRows {
  Tensor ids;      ///< i64 [rows, longest], padded at the end with 0
  Tensor lengths;  ///< i64 [rows]; empty where all are equally long
};
IdRows pad_rows(std::span<const std::vector<int32_t>> rows);
/// The rows of these numbers.
IdRows pad_rows(std::span<const std::vector<int32_t>> rows, std::span<const int64_t> chosen);

/// Numbers of sequences that go into one batch.
using Batch = std::vector<int64_t>;
struct GroupOptions {
  int64_t tokens = 4096;  ///< sequences · longest ≤ tokens
  int64_t most = 512;     ///< sequences
};
/// Sequences of like length together, long ones first; every one in exactly one batch. One longer than `tokens` is
/// alone, and empty ones are among themselves.
std::vector<Batch> group_by_length(std::span<const int64_t> lengths, const GroupOptions& options);

}  // namespace attend
