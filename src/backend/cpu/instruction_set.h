#pragma once

#include <span>
#include <vector>

// The instruction sets that kernels are written for. This is the only place that decides which of them run; Highway's
// targets and the hand-written kernels both follow it.
namespace attend::cpu {

/// Each set includes the sets before it. `avx512` includes VNNI if the processor has it. `baseline` is available on
/// every processor of the architecture.
enum class InstructionSet { baseline, sse4, avx2, avx512, avx512bf16, amx };

const char* name_of(InstructionSet set);

/// The sets that both this processor and this build support, narrowest first. Contains at least `baseline`.
const std::vector<InstructionSet>& machine_sets();

/// The set named `wanted`, or the widest of `machine` if `wanted` is null or empty. Throws DeviceError if `wanted` does
/// not name a set, or names a set that `machine` does not contain.
InstructionSet limited_set(const char* wanted, std::span<const InstructionSet> machine);

/// The widest set that kernels use: the widest of the processor, limited by the environment variable ATTEND_CPU. The
/// first call that does not throw decides. Throws as limited_set() does.
InstructionSet instruction_set();

/// Whether kernels may use the set.
inline bool may_use(InstructionSet set) { return set <= instruction_set(); }

}  // namespace attend::cpu
