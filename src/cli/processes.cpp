#include "cli/processes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "backend/cpu/instruction_set.h"
#include "distributed/cores.h"
#include "distributed/group.h"

namespace attend::cli {
namespace {

using distributed::Group;

constexpr std::array kDistributed{"train", "translate", "generate", "classify", "embed", "score", "evaluate"};

std::string& set_description() {
  static std::string text;
  return text;
}

/// A sum of this program's file (FNV-1a).
std::string program_sum() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  uint64_t sum = 0xcbf29ce484222325u;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    for (std::streamsize i = 0; i + 8 <= in.gcount(); i += 8) {
      uint64_t word = 0;
      std::copy_n(block.data() + i, 8, reinterpret_cast<char*>(&word));
      sum = (sum ^ word) * 0x100000001b3u;
    }
  }
  return std::to_string(sum);
}

/// Throws Error if a rank's text differs from the first one's.
void require_same(Group& group, const std::string& text, const char* difference) {
  const std::vector<std::string> all = distributed::all_gather(group, text);
  for (int rank = 1; rank < group.size(); ++rank) {
    require<Error>(all[static_cast<size_t>(rank)] == all[0], distributed::name_of(group, rank), " ", difference,
                   distributed::name_of(group, 0));
  }
}

/// All kernels use the widest set that every processor has, so that all processes compute the same bits.
void agree_on_instructions(Group& group) {
  const auto own = cpu::limited_set(std::getenv("ATTEND_CPU"), cpu::machine_sets());
  const std::vector<int> all = distributed::all_gather(group, std::vector<int>{static_cast<int>(own)});
  const auto [narrowest, widest] = std::ranges::minmax(all);
  const auto common = static_cast<cpu::InstructionSet>(narrowest);
  if (common != cpu::InstructionSet::baseline) setenv("ATTEND_CPU", cpu::name_of(common), 1);
  require<Error>(cpu::instruction_set() == common, "the processes have no instruction set in common");
  set_description() = std::string("instruction set ") + cpu::name_of(common);
  if (widest != narrowest) {
    set_description() += std::string(" (some have ") + cpu::name_of(static_cast<cpu::InstructionSet>(widest)) + ")";
  }
}

int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

/// Divides the cores of the host among its processes. mpirun binds each of a few processes to one core, whatever their
/// number of threads; such a binding is lifted. Slurm's is kept: there, it is what the user asked for.
void divide_cores(const distributed::Member& own) {
  if (std::getenv("ATTEND_THREADS") != nullptr) return;
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int share = std::max(1, online / own.local_size);
  if (usable_cores() < share && std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core = 0; core < std::min(static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)), CPU_SETSIZE); ++core) {
      CPU_SET(core, &all);
    }
    sched_setaffinity(0, sizeof all, &all);
  }
  // Bound processes have their cores for themselves; others share those of the host.
  const int cores = usable_cores();
  set_threads(std::clamp(cores < online ? std::min(cores, share) : share, 1, 1024));
}

}  // namespace

bool is_first_process() { return distributed::world().rank() == 0; }

bool first_process_says(bool own) { return distributed::broadcast(distributed::world(), own ? "yes" : "") == "yes"; }

void join_processes(const std::vector<std::string>& words) {
  const bool is_help =
      std::ranges::find(words, "--help") != words.end() || std::ranges::find(words, "-h") != words.end();
  const bool is_ring = words[0] == "bench" && std::ranges::find(words, "ring") != words.end();
  if (is_help || (!is_ring && std::ranges::find(kDistributed, words[0]) == kDistributed.end())) return;
  distributed::join();
  Group& group = distributed::world();
  if (group.size() == 1) return;
  require_same(group, program_sum(), "runs another build of attend than ");
  require_same(group, distributed::packed(words), "was started with other options than ");
  agree_on_instructions(group);
  divide_cores(group.members()[static_cast<size_t>(group.rank())]);
}

void keep_to_own_cores() {
  const Group& group = distributed::world();
  const distributed::Member& own = group.members()[static_cast<size_t>(group.rank())];
  if (own.local_size > 1) distributed::keep_to_cores(own.local_rank, own.local_size, threads());
}

std::string processes_text() {
  const Group& group = distributed::world();
  if (group.size() == 1) return "";
  std::set<std::string> hosts;
  for (const auto& member : group.members()) hosts.insert(member.host);
  return std::to_string(group.size()) + " processes on " + std::to_string(hosts.size()) +
         (hosts.size() == 1 ? " host, " : " hosts, ") + std::to_string(threads()) +
         (threads() == 1 ? " thread each, " : " threads each, ") + set_description();
}

/// An error that all processes have, such as a wrong option, is the first one's to print: it ends the others while they
/// wait. An error of one process alone is printed with its name.
int fail(int code, std::string message) {
  std::ranges::replace(message, '\n', ' ');
  Group& group = distributed::world();
  if (std::max(group.rank(), distributed::launched_rank()) > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  if (group.size() > 1) {
    group.abort(code, (group.rank() > 0 ? distributed::name_of(group, group.rank()) + ": " : "") + message);
  }
  std::cerr << "attend: " << message << '\n';
  return code;
}

}  // namespace attend::cli
