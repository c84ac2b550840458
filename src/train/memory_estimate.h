#pragma once

#include <cstdint>
#include <string>

#include "attend/models/model.h"
#include "attend/train/dataset.h"
#include "attend/train/options.h"

namespace attend {

/// The memory that a training needs on its device, in bytes. Weights, gradients and optimiser state are exact;
/// activations are an estimate, from 0.7 to 1.5 times the measured ones.
struct MemoryEstimate {
  double weights = 0, optimizer = 0;
  double gradients = 0;    ///< with the partial sums of several batches, and the buffers of several processes
  double activations = 0;  ///< of the largest batch, with the temporary tensors of the backward pass
  double total() const { return weights + gradients + optimizer + activations; }
  double least() const { return weights + gradients + optimizer + 0.7 * activations; }
};

/// The largest batch of a training.
struct BatchShape {
  int64_t rows = 0;
  int64_t length = 0;  ///< positions per row, with padding; of a pair, on each side
};
BatchShape largest_batch(const Model& model, const Dataset& data, const TrainingOptions& options);

/// Of one of `processes` processes.
MemoryEstimate estimate_memory(const Model& model, const TrainingOptions& options, const BatchShape& batch,
                               Device device, int processes = 1);

/// "about 1.3 GiB (weights …, gradients …, optimizer …, activations …) of 139.1 GiB free on cuda:0".
std::string memory_text(const MemoryEstimate& estimate, size_t free_bytes, Device device);

/// Throws DeviceError, with the options that reduce the need, if the training cannot fit into the free memory.
void require_memory(const MemoryEstimate& estimate, size_t free_bytes, const Model& model,
                    const TrainingOptions& options, Device device);

}  // namespace attend
