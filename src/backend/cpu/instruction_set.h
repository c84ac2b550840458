#pragma once

#include <span>
#include <vector>

// The instruction sets that kernels are written for, and the one place that decides which of them run. Highway's
// targets and the hand-written kernels both follow it.
namespace attend::cpu {

/// Each includes the sets before it. `avx512` includes VNNI where the processor has it. `baseline` is what every
/// processor of the architecture has.
enum class InstructionSet { baseline, sse4, avx2, avx512, avx512bf16, amx };

const char* name_of(InstructionSet set);

/// The sets that both this processor and this build have, narrowest first: `baseline` at least.
const std::vector<InstructionSet>& machine_sets();

/// The widest of `machine`, or the set called `wanted` unless that is null or empty. Throws DeviceError where
/// `wanted` is no name of a set, or of one that `machine` does not hold.
InstructionSet limited_set(const char* wanted, std::span<const InstructionSet> machine);

/// The widest set that kernels use: the processor's, limited by the environment's ATTEND_CPU. Decided once, at the
/// first call that does not throw; throws as limited_set does.
InstructionSet instruction_set();

/// Whether kernels may use the set.
inline bool may_use(InstructionSet set) { return set <= instruction_set(); }

}  // namespace attend::cpu
