// The values of ATTEND_CPU, and that every dispatch follows it. CTest runs this on each instruction set of the machine.
#include "backend/cpu/instruction_set.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdlib>

#include "backend/cpu/int8/int8.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/kernels.h"
#include "testing/gradients.h"

namespace attend::cpu {
namespace {

using enum InstructionSet;

constexpr InstructionSet kZen4[] = {baseline, sse4, avx2, avx512, avx512bf16};

TEST(InstructionSets, TheWidestUnlessLimited) {
  EXPECT_EQ(limited_set(nullptr, kZen4), avx512bf16);
  EXPECT_EQ(limited_set("", kZen4), avx512bf16);
  EXPECT_EQ(limited_set("sse4", kZen4), sse4);
  EXPECT_EQ(limited_set("avx2", kZen4), avx2);
  EXPECT_EQ(limited_set("avx512", kZen4), avx512);
  EXPECT_EQ(limited_set("avx512bf16", kZen4), avx512bf16);
}

TEST(InstructionSets, OtherNamesAreErrors) {
  for (const char* name : {"AVX2", "avx3", "baseline", "avx2 ", "0"}) {
    testing::expect_error<DeviceError>(
        [&] { limited_set(name, kZen4); },
        "ATTEND_CPU: expected sse4, avx2, avx512, avx512bf16 or amx, got '" + std::string(name) + "'");
  }
  testing::expect_error<DeviceError>(
      [] { limited_set("amx", kZen4); },
      "ATTEND_CPU: this processor does not have amx; it has sse4, avx2, avx512 and avx512bf16");
  constexpr InstructionSet kOld[] = {baseline};
  testing::expect_error<DeviceError>(
      [&] { limited_set("sse4", kOld); },
      "ATTEND_CPU: this processor does not have sse4; it has none of the sets that ATTEND_CPU can name");
}

TEST(InstructionSets, TheMachineAlsoHasTheNarrowerSets) {
  const std::vector<InstructionSet>& sets = machine_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.front(), baseline);
  EXPECT_TRUE(std::ranges::is_sorted(sets));
  EXPECT_TRUE(may_use(baseline));
}

TEST(InstructionSets, TheEnvironmentLimits) {
  EXPECT_EQ(instruction_set(), limited_set(std::getenv("ATTEND_CPU"), machine_sets()));
}

/// Highway's kernels, 8-bit products and bfloat16 products.
TEST(InstructionSets, EveryDispatchFollows) {
  kernels(Device{});
  EXPECT_NE(int8_unit().name, nullptr);
  EXPECT_TRUE(may_use(avx2) || std::string(int8_unit().name) == "plain") << int8_unit().name;
  EXPECT_TRUE(may_use(avx512) || std::string(int8_unit().name) != "avx512_vnni") << int8_unit().name;
  EXPECT_TRUE(may_use(avx512bf16) || bf16_unit() == nullptr);
  EXPECT_TRUE(may_use(amx) || bf16_unit() == nullptr || std::string(bf16_unit()->name) != "amx_bf16");
  const size_t int8 = 1 + may_use(avx2) + may_use(avx512), bf16 = 1 + may_use(avx512bf16) + may_use(amx);
  EXPECT_LE(int8_units_for_test().size(), int8);  // AVX-512 without VNNI has one fewer
  EXPECT_EQ(bf16_units_for_test().size(), bf16);
#if HWY_ARCH_X86
  const int64_t targets = hwy::SupportedTargets();
  EXPECT_TRUE(may_use(avx2) || (targets & HWY_AVX2) == 0);
  EXPECT_TRUE(may_use(avx512) || (targets & (HWY_AVX3 | HWY_AVX3_DL)) == 0);
  EXPECT_TRUE(!may_use(sse4) || (targets & HWY_SSE4) != 0) << "narrower targets stay";
#endif
}

}  // namespace
}  // namespace attend::cpu
