#pragma once

#include <cstddef>

// Copies of a few bytes by a kernel, which starts earlier than a copy engine does.
namespace attend::cuda {

/// Whether the number of bytes and the address on the device allow put_small or fetch_small.
bool can_put_small(const void* to, size_t bytes);
bool can_fetch_small(const void* from, size_t bytes);

/// Copies bytes of the host, which travel as an argument of the kernel, to the device.
void put_small(void* to, const void* from_host, size_t bytes);
/// Copies bytes of the device to pinned memory of the host, 16-byte aligned. The host sees them when it has waited for
/// the stream.
void fetch_small(void* to_pinned, const void* from, size_t bytes);

}  // namespace attend::cuda
