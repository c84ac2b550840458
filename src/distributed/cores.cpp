#include "distributed/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace attend::distributed {
namespace {

std::mutex mutex;
std::optional<cpu_set_t> before;  // the cores that this process could use before keep_to_cores(); guarded by mutex

bool is_chosen_by_launcher() {
  const char* policy = std::getenv("OMPI_MCA_hwloc_base_binding_policy");
  const char* slurm = std::getenv("SLURM_CPU_BIND_TYPE");
  return (policy != nullptr && std::string(policy) == "none") || (slurm != nullptr && *slurm != '\0');
}

/// The first of the hardware threads that share a core with this one.
int core_of(int cpu) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  in >> first;
  return in ? first : cpu;
}

}  // namespace

bool keep_to_cores(int place, int processes, int threads) {
  cpu_set_t usable;
  if (is_chosen_by_launcher() || sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const int share = CPU_COUNT(&usable) / std::max(processes, 1);
  if (CPU_COUNT(&usable) < online || share < threads || 2 * threads * processes <= online) return false;
  std::map<int, std::vector<int>> cores;  // hardware threads of each core
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cores[core_of(cpu)].push_back(cpu);
  }
  struct Place {
    int core, sibling, cpu;
  };
  std::vector<Place> places;
  for (const auto& [core, cpus] : cores) {
    for (size_t i = 0; i < cpus.size(); ++i) places.push_back({core, static_cast<int>(i), cpus[i]});
  }
  // Of this process's share, first one hardware thread of each core.
  const auto begin = places.begin() + std::ptrdiff_t{place} * share;
  std::stable_sort(begin, begin + share, [](const Place& a, const Place& b) { return a.sibling < b.sibling; });
  cpu_set_t own;
  CPU_ZERO(&own);
  std::for_each(begin, begin + threads, [&](const Place& each) { CPU_SET(each.cpu, &own); });
  if (sched_setaffinity(0, sizeof own, &own) != 0) return false;
  const std::lock_guard lock(mutex);
  before = usable;
  return true;
}

void leave_cores() {
  const std::lock_guard lock(mutex);
  if (before) sched_setaffinity(0, sizeof *before, &*before);
}

}  // namespace attend::distributed
