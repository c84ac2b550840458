// A back end's table must have every entry. A missing one compiles, and would only be noticed by the op that calls it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <type_traits>

#include "backend/kernels.h"

namespace attend {
namespace {

/// The memory layout of a Kernel of any signature: the function, or null and the entry's name.
struct Entry {
  void (*function)();
  const char* name;
};

// The table can be read as an array of entries, as its structs contain only kernels.
static_assert(sizeof(Kernel<void()>) == sizeof(Entry) && alignof(Kernel<void()>) == alignof(Entry));
static_assert(std::is_standard_layout_v<Kernel<void()>> && std::is_trivially_copyable_v<Kernels>);
static_assert(sizeof(Kernels) % sizeof(Entry) == 0);
constexpr size_t kEntries = sizeof(Kernels) / sizeof(Entry);

std::vector<Entry> entries_of(const Kernels& table) {
  std::vector<Entry> entries(kEntries);
  std::memcpy(static_cast<void*>(entries.data()), &table, sizeof table);
  return entries;
}

std::vector<std::string> missing_from(const Kernels& table) {
  std::vector<std::string> names;
  for (const Entry& entry : entries_of(table)) {
    if (entry.function == nullptr) names.push_back(entry.name);
  }
  return names;
}

TEST(KernelTable, TheCpuHasEveryKernel) { EXPECT_EQ(missing_from(kernels(Device{})), std::vector<std::string>{}); }

TEST(KernelTable, AForgottenEntryIsNamed) {
  Kernels table = kernels(Device{});
  table.softmax.log_backward = Kernels{}.softmax.log_backward;
  table.optim.sgd = Kernels{}.optim.sgd;
  EXPECT_EQ(missing_from(table), (std::vector<std::string>{"softmax.log_backward", "optim.sgd"}));
}

/// In an empty table every entry is missing, and each has a unique name, which its error contains.
TEST(KernelTable, EveryEntryHasAName) {
  const std::vector<std::string> names = missing_from(Kernels{});
  EXPECT_EQ(names.size(), kEntries);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), kEntries);
  for (const std::string& name : names) EXPECT_NE(name.find('.'), std::string::npos) << name;
}

}  // namespace
}  // namespace attend
