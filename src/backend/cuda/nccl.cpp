#include <cstring>

#include "attend/base/error.h"
#include "backend/cuda/devices.h"
#include "backend/cuda/messages.h"
#include "backend/cuda/toolkit.h"

// Messages between GPUs by NCCL, a library that is opened when processes are connected. NCCL moves bytes; except for
// sum(), it adds nothing.
namespace attend::cuda {
namespace {

// The part of NCCL's interface that is used here. Its header is not a part of the CUDA toolkit.
using Communicator = struct NcclCommunicator*;
struct UniqueId {
  char bytes[128];
};
constexpr int kSuccess = 0, kInt8 = 0, kFloat32 = 7, kSum = 0;

struct Nccl {
  void* library = nullptr;  // null: not found
  int (*version)(int* version) = nullptr;
  const char* (*error_text)(int status) = nullptr;
  int (*unique_id)(UniqueId* id) = nullptr;
  int (*connect)(Communicator* communicator, int size, UniqueId id, int rank) = nullptr;
  int (*destroy)(Communicator communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void* data, size_t count, int type, int rank, Communicator, cudaStream_t) = nullptr;
  int (*receive)(void* data, size_t count, int type, int rank, Communicator, cudaStream_t) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int sum, Communicator, cudaStream_t) = nullptr;
};

Nccl opened() {
  Nccl functions{.library = open_toolkit_library({"libnccl.so.2"})};
  if (functions.library == nullptr) return functions;
  load(functions.version, functions.library, "ncclGetVersion");
  load(functions.error_text, functions.library, "ncclGetErrorString");
  load(functions.unique_id, functions.library, "ncclGetUniqueId");
  load(functions.connect, functions.library, "ncclCommInitRank");
  load(functions.destroy, functions.library, "ncclCommDestroy");
  load(functions.group_start, functions.library, "ncclGroupStart");
  load(functions.group_end, functions.library, "ncclGroupEnd");
  load(functions.send, functions.library, "ncclSend");
  load(functions.receive, functions.library, "ncclRecv");
  load(functions.all_reduce, functions.library, "ncclAllReduce");
  return functions;
}

const Nccl& nccl() {
  static const Nccl functions = opened();
  return functions;
}

void check_nccl(int status, const char* what) {
  if (status == kSuccess) [[likely]]
    return;
  throw_error<DeviceError>(what, ": NCCL reports: ", nccl().error_text(status));
}

struct Connection {
  Communicator communicator = nullptr;
  cudaStream_t stream = nullptr;  // of the messages, so that they overlap with kernels
};

/// An event after the work that is on a stream now.
cudaEvent_t event_on(cudaStream_t where) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "messages: creating an event");
  check(cudaEventRecord(event, where), "messages: recording an event");
  return event;
}

/// Lets a stream wait for an event, which is no longer needed after.
void wait_on(cudaStream_t where, cudaEvent_t event) {
  check(cudaStreamWaitEvent(where, event, 0), "messages: waiting for an event");
  check(cudaEventDestroy(event), "messages: destroying an event");
}

/// Messages on their stream that follow the kernels called so far. Returns the event after them.
template <class Start>
cudaEvent_t started(const Connection& connection, Start&& start) {
  require_no_capture("messages");
  wait_on(connection.stream, event_on(stream()));
  start();
  return event_on(connection.stream);
}

std::string problem() { return nccl().library != nullptr ? "" : no_nccl_text(); }

/// Versions are counted as 22809 for 2.28.9.
std::string name() {
  int version = 0;
  check_nccl(nccl().version(&version), "messages: version");
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string address() {
  char text[32] = "";
  check(cudaDeviceGetPCIBusId(text, sizeof text, device_index()), "messages: the address of a device");
  return text;
}

std::string invitation() {
  UniqueId id{};
  check_nccl(nccl().unique_id(&id), "messages: invitation");
  return {id.bytes, sizeof id.bytes};
}

void* connect(const std::string& invitation, int rank, int size) {
  UniqueId id{};
  require<DeviceError>(invitation.size() == sizeof id.bytes, "messages: not an invitation");
  std::memcpy(id.bytes, invitation.data(), sizeof id.bytes);
  auto connection = std::make_unique<Connection>();
  check(cudaStreamCreateWithFlags(&connection->stream, cudaStreamNonBlocking), "messages: creating a stream");
  check_nccl(nccl().connect(&connection->communicator, size, id, rank), "messages: connecting the GPUs");
  return connection.release();
}

void disconnect(void* connection) {
  const std::unique_ptr<Connection> owned(static_cast<Connection*>(connection));
  cudaStreamSynchronize(owned->stream);
  nccl().destroy(owned->communicator);
  cudaStreamDestroy(owned->stream);
  cudaGetLastError();
}

void* exchange(void* connection, std::span<const DeviceMessage> sent, std::span<const DeviceMessage> received) {
  const auto& own = *static_cast<Connection*>(connection);
  return started(own, [&] {
    check_nccl(nccl().group_start(), "messages: start");
    for (const auto& [rank, data, bytes] : sent) {
      check_nccl(nccl().send(data, bytes, kInt8, rank, own.communicator, own.stream), "messages: send");
    }
    for (const auto& [rank, data, bytes] : received) {
      check_nccl(nccl().receive(data, bytes, kInt8, rank, own.communicator, own.stream), "messages: receive");
    }
    check_nccl(nccl().group_end(), "messages: end");
  });
}

void* sum(void* connection, float* values, size_t count) {
  const auto& own = *static_cast<Connection*>(connection);
  return started(own, [&] {
    check_nccl(nccl().all_reduce(values, values, count, kFloat32, kSum, own.communicator, own.stream), "messages: sum");
  });
}

void finish(void* transfer) { wait_on(stream(), static_cast<cudaEvent_t>(transfer)); }

}  // namespace

const PluginMessages kMessages{.problem = problem,
                               .name = name,
                               .address = address,
                               .invitation = invitation,
                               .connect = connect,
                               .disconnect = disconnect,
                               .exchange = exchange,
                               .sum = sum,
                               .finish = finish};

}  // namespace attend::cuda
