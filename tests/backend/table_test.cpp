// A back end's table has every entry: one that was forgotten compiles, and would be found only by the op that calls it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <type_traits>

#include "backend/kernels.h"

namespace attend {
namespace {

/// What a Kernel holds, whatever its signature: the function, or null and the entry's name.
struct Entry {
  void (*function)();
  const char* name;
};

// The table is an array of these as long as its structs hold nothing but kernels.
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

/// An empty table lacks every entry, and each has a name of its own, which is the one its error tells.
TEST(KernelTable, EveryEntryHasAName) {
  const std::vector<std::string> names = missing_from(Kernels{});
  EXPECT_EQ(names.size(), kEntries);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), kEntries);
  for (const std::string& name : names) EXPECT_NE(name.find('.'), std::string::npos) << name;
}

}  // namespace
}  // namespace attend
