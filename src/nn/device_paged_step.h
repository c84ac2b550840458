#pragma once

#include <span>
#include <string>

#include "nn/paged_step.h"
#include "ops/paged_decode.h"

// One step of a generation on a GPU whose keys and values are in pages. Each token is a row of x [tokens, 1, dim], so
// that one token after the other and many at once take the same kernels.
namespace attend {

/// The numbers of a step, i64 on the device, and its pages. Nothing else depends on the step, so that it can be
/// captured.
struct DevicePagedStep {
  const PagePool* pool = nullptr;
  Tensor ids, positions, places;  ///< [tokens]; places: the rows of the pool for the new keys and values
  DevicePages own, memory;        ///< without keys and values; `memory` of an encoder–decoder: those of the sources
  Tensor bias;                    ///< of self-attention, [tokens, heads, 1, positions of a table]; may be empty
  const PagedStep* described = nullptr;  ///< the step on the host, for traces; null: there are none
  std::vector<TracedRows> traced{};
};

/// A layer's forward pass without dropout. Writes the new keys and values into the pages. `path` is that of the layer.
Tensor device_paged_layer(const TransformerEncoderLayer& layer, const Tensor& x, int64_t index, DevicePagedStep& step,
                          const std::string& path);
Tensor device_paged_layer(const TransformerDecoderLayer& layer, const Tensor& x, int64_t index, DevicePagedStep& step,
                          const std::string& path);

/// Writes the keys and values of the encoder's output [sources, longest, dim] into rows of layer `index`. `places`: i64
/// [sources · longest] on the device.
void write_device_memory(const TransformerDecoderLayer& layer, const Tensor& memory, int64_t index,
                         const PagePool& pool, const Tensor& places);

}  // namespace attend
