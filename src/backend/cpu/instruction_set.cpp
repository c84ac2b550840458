#include "backend/cpu/instruction_set.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "attend/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace attend::cpu {
namespace {

using enum InstructionSet;

/// The sets that ATTEND_CPU can name.
constexpr InstructionSet kNamed[] = {sse4, avx2, avx512, avx512bf16, amx};

/// Lists the sets in the form "a, b or c", where `last` is the last separator.
std::string listed(std::span<const InstructionSet> sets, const char* last) {
  std::string text;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (i > 0) text += i + 1 == sets.size() ? last : ", ";
    text += name_of(sets[i]);
  }
  return text.empty() ? "none of the sets that ATTEND_CPU can name" : text;
}

#if defined(__x86_64__)

bool has_avx512bf16() { return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl"); }

/// The tile registers of AMX are large, so Linux grants them only to processes that request them.
bool has_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTile) != 0 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// A set counts only if Highway's kernels were compiled for it; HWY_TARGETS lists the targets of this build.
std::vector<InstructionSet> find_sets() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<InstructionSet> sets{baseline};
  if ((targets & HWY_SSE4) != 0) sets.push_back(sse4);
  if ((targets & HWY_AVX2) != 0) sets.push_back(avx2);
  if ((targets & (HWY_AVX3 | HWY_AVX3_DL)) != 0) {
    sets.push_back(avx512);
    if (has_avx512bf16()) sets.push_back(avx512bf16);
    if (has_avx512bf16() && has_amx()) sets.push_back(amx);
  }
  return sets;
}

/// Highway's targets beyond a set. A better target has a lower bit.
int64_t targets_beyond(InstructionSet set) {
  switch (set) {
    case baseline:
      return ~int64_t{0};
    case sse4:
      return HWY_SSE4 - 1;
    case avx2:
      return HWY_AVX2 - 1;
    case avx512:
      return HWY_AVX3_DL - 1;
    case avx512bf16:
    case amx:
      break;
  }
  return 0;
}

#else

std::vector<InstructionSet> find_sets() { return {baseline}; }

int64_t targets_beyond(InstructionSet) { return 0; }

#endif

InstructionSet decide() {
  const InstructionSet set = limited_set(std::getenv("ATTEND_CPU"), machine_sets());
  if (set != machine_sets().back()) hwy::DisableTargets(targets_beyond(set));
  return set;
}

}  // namespace

const char* name_of(InstructionSet set) {
  switch (set) {
    case baseline:
      return "baseline";
    case sse4:
      return "sse4";
    case avx2:
      return "avx2";
    case avx512:
      return "avx512";
    case avx512bf16:
      return "avx512bf16";
    case amx:
      return "amx";
  }
  return "";
}

const std::vector<InstructionSet>& machine_sets() {
  static const std::vector<InstructionSet> sets = find_sets();
  return sets;
}

InstructionSet limited_set(const char* wanted, std::span<const InstructionSet> machine) {
  if (wanted == nullptr || *wanted == 0) return machine.back();
  const auto* named =
      std::ranges::find_if(kNamed, [&](InstructionSet set) { return std::string(name_of(set)) == wanted; });
  require<DeviceError>(named != std::end(kNamed), "ATTEND_CPU: expected ", listed(kNamed, " or "), ", got '", wanted,
                       "'");
  const bool is_there = std::ranges::find(machine, *named) != machine.end();
  require<DeviceError>(is_there, "ATTEND_CPU: this processor does not have ", wanted, "; it has ",
                       listed(machine.subspan(1), " and "));
  return *named;
}

InstructionSet instruction_set() {
  static const InstructionSet set = decide();
  return set;
}

}  // namespace attend::cpu
