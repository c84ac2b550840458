#include "distributed/plugin.h"

#include <dlfcn.h>

#include "attend/base/error.h"
#include "distributed/mpi/mpi_calls.h"
#include "distributed/mpi/mpi_group.h"
#include "distributed/mpi/watch.h"

namespace attend::distributed::mpi {
namespace {

std::unique_ptr<MpiGroup> all;
std::unique_ptr<Watch> watching;

/// Makes the symbols of the MPI library global: Open MPI opens components that need them.
void publish_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&MPI_Init_thread), &info) != 0 && info.dli_fname != nullptr) {
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}

Group& open() {
  publish_library();
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  require<Error>(provided >= MPI_THREAD_SERIALIZED, "this MPI library does not support calls from several threads");
  MPI_Comm communicator = MPI_COMM_NULL;
  call("MPI_Comm_dup", MPI_Comm_dup, MPI_COMM_WORLD, &communicator);
  all = std::make_unique<MpiGroup>(communicator);
  if (all->size() > 1) watching = std::make_unique<Watch>(*all);
  return *all;
}

/// Between the two barriers all processes live, and none of them watches any longer: after that, they end one by one.
void close() {
  all->barrier();
  if (watching) watching->stop();
  all->barrier();
  all.reset();
  const std::lock_guard lock(mpi_mutex());
  MPI_Finalize();
}

constexpr Plugin kPlugin{.open = open, .close = close};

}  // namespace
}  // namespace attend::distributed::mpi

extern "C" [[gnu::visibility("default")]] const attend::distributed::Plugin* attend_mpi(int version) {
  return version == attend::distributed::kPluginVersion ? &attend::distributed::mpi::kPlugin : nullptr;
}
