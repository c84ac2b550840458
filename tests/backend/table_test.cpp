// A back end's table must have every entry. A missing one compiles, and would only be noticed by the op that calls it.
#include <gtest/gtest.h>

#include <set>

#include "backend/table_entries.h"

namespace attend {
namespace {

using testing::kEntries;
using testing::missing_from;

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
