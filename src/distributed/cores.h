#pragma once

namespace attend::distributed {

/// Divides the cores of this host among the `processes` on it and keeps the calling thread, and the threads that it
/// starts from then on, to `threads` cores of share `place`: threads that stay on their cores find their data in the
/// caches. The cores of a share lie side by side. Returns false, and changes nothing, if a share has fewer cores than
/// `threads`; if half of the host's cores are enough for all processes, because two such jobs would get the same cores
/// while others are idle; or if the user or the launcher chose the cores: `mpirun --bind-to none`, `srun --cpu-bind`,
/// taskset.
bool keep_to_cores(int place, int processes, int threads);

/// Lets the calling thread, which works in the background, use all cores again.
void leave_cores();

}  // namespace attend::distributed
