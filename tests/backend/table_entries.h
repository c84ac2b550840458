#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/kernels.h"

namespace attend::testing {

/// The memory layout of a Kernel of any signature: the function, or null and the entry's name.
struct Entry {
  void (*function)();
  const char* name;
};

// The table can be read as an array of entries, as its structs contain only kernels.
static_assert(sizeof(Kernel<void()>) == sizeof(Entry) && alignof(Kernel<void()>) == alignof(Entry));
static_assert(std::is_standard_layout_v<Kernel<void()>> && std::is_trivially_copyable_v<Kernels>);
static_assert(sizeof(Kernels) % sizeof(Entry) == 0);
inline constexpr size_t kEntries = sizeof(Kernels) / sizeof(Entry);

inline std::vector<Entry> entries_of(const Kernels& table) {
  std::vector<Entry> entries(kEntries);
  std::memcpy(static_cast<void*>(entries.data()), &table, sizeof table);
  return entries;
}

/// The names of the entries that are absent.
inline std::vector<std::string> missing_from(const Kernels& table) {
  std::vector<std::string> names;
  for (const Entry& entry : entries_of(table)) {
    if (entry.function == nullptr) names.push_back(entry.name);
  }
  return names;
}

}  // namespace attend::testing
