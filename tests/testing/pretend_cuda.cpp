// A plug-in for tests without a GPU: two devices whose kernels are those of the CPU, but whose memory is their own.
// Like those of a GPU they also compute on 16-bit floats, by f32 copies. Every kernel first checks that all its data is
// in memory of the current device, and throws DeviceError otherwise. So a host pointer that would reach a kernel of a
// GPU is found. A graph records the calls of kernels; before each launch, all memory that captures have used is
// overwritten.
//
// ATTEND_PRETEND names a fault of the GPU: no_driver, old_driver, no_gpu, no_blas, busy, other_version, memory:N for
// devices with N bytes, or full_after:N for devices without free memory after N launched kernels.
// ATTEND_PRETEND=messages is no fault: the devices of threads, which stand for processes, can send each other messages.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "backend/cuda/messages.h"
#include "backend/plugin.h"
#include "testing/pretend_messages.h"
#include "testing/pretend_widening.h"

namespace attend {
namespace {

constexpr int kDevices = 2;

std::string fault() {
  const char* name = std::getenv("ATTEND_PRETEND");
  return name == nullptr ? "" : name;
}

/// The number after a prefix in the name of the fault; `otherwise` if it has another one.
size_t fault_number(std::string_view prefix, size_t otherwise) {
  const std::string name = fault();
  return name.starts_with(prefix) ? std::stoull(name.substr(prefix.size())) : otherwise;
}

size_t total_memory() { return fault_number("memory:", size_t{4} << 30); }

const PluginHost* host = nullptr;
thread_local int current = -1;
std::atomic<uint64_t> launches{0}, graph_launches{0}, synchronizations{0};

/// A graph: the recorded calls.
using Graph = std::vector<std::function<void()>>;
thread_local std::unique_ptr<Graph> recorded;  // of the capture of this thread

void require_no_capture(const char* what) {
  require<DeviceError>(recorded == nullptr, what, ": not possible while a graph is captured");
}

/// The memory of one device: its blocks by address.
struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, size_t> blocks;
  std::map<uintptr_t, size_t> captured;  // blocks of captures; they are kept as long as there are graphs
  int graphs = 0;
  size_t live = 0, peak = 0;

  bool contains(uintptr_t begin, size_t bytes) {
    std::lock_guard lock(mutex);
    auto after = blocks.upper_bound(begin);
    if (after == blocks.begin()) return false;
    const auto& [start, size] = *--after;
    return begin + bytes <= start + size;
  }
};

/// Never destroyed: tensors with static lifetime may be released later.
Memory& memory_of(int index) {
  static auto* all = new Memory[kDevices];
  return all[index];
}

Memory& memory() {
  require<DeviceError>(current >= 0, "pretend cuda: no device was selected");
  return memory_of(current);
}

void check_range(const char* kernel, const void* data, size_t bytes) {
  if (data == nullptr || bytes == 0 || memory().contains(reinterpret_cast<uintptr_t>(data), bytes)) return;
  for (int index = 0; index < kDevices; ++index) {
    require<DeviceError>(!memory_of(index).contains(reinterpret_cast<uintptr_t>(data), 1), kernel, ": ", bytes,
                         " bytes are not all in one block of cuda:", current,
                         ", the first is in a block of cuda:", index);
  }
  throw_error<DeviceError>(kernel, ": a host pointer was passed to cuda:", current);
}

/// Checks all data of the arguments of a kernel. A new type of argument needs its overload here.
struct Arguments {
  const char* kernel;

  template <class... Parts>
  void check_all(const Parts&... parts) const {
    (check(parts), ...);
  }

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void check(T) const {}
  void check(const char*) const {}
  void check(RandomStream random) const { check_range(kernel, random.base, sizeof *random.base); }
  void check(const CrossEntropyOptions&) const {}
  void check(const RotaryOptions&) const {}
  void check(const AdamOptions&) const {}
  void check(const SgdOptions& options) const { check(options.rate); }

  template <class Pointer>
  void check(const BasicView<Pointer>& view) const {
    if (view.shape.numel() == 0) return;
    int64_t last = 0;
    for (int64_t axis = 0; axis < view.rank(); ++axis) last += (view.shape[axis] - 1) * view.strides[axis];
    check_range(kernel, view.data, (static_cast<size_t>(last) + 1) * size_of(view.dtype));
  }
  template <class Pointer>
  void check(const BasicRows<Pointer>& rows) const {
    if (rows.numel() == 0) return;
    check_range(kernel, rows.data,
                static_cast<size_t>((rows.rows - 1) * rows.stride + rows.cols) * size_of(rows.dtype));
  }
  void check(const float* data) const { check_range(kernel, data, sizeof *data); }
  void check(const int32_t* data) const { check_range(kernel, data, sizeof *data); }
  template <class T>
  void check(std::span<const T> parts) const {
    for (const T& part : parts) check(part);
  }

  void check(const MatmulOptions& options) const { check_all(options.bias, options.residual, options.row_sums); }
  void check(const WeightMatrix& weight) const {
    check(weight.values);
    check_range(kernel, weight.scales, static_cast<size_t>(weight.values.rows) * sizeof(float));
    check_range(kernel, weight.sums, static_cast<size_t>(weight.values.rows) * sizeof(int32_t));
  }
  void check(const WeightProduct& product) const {
    check_all(product.weight, product.bias, product.y, product.residual, product.places);
  }
  void check(const WeightProductOptions& options) const {
    if (options.norm) check_all(options.norm->weight, options.norm->bias);
  }
  void check(const AttentionProblem& problem) const {
    check_all(problem.q, problem.mask, problem.bias, problem.lengths, problem.q_offsets, problem.k_offsets,
              problem.alibi, problem.page_table, problem.table_rows, problem.runs);
    problem.page_table ? check_pages(problem) : check_all(problem.k, problem.v);
  }
  /// Every page of a key that is seen is in memory of the device. While a graph is captured, the tables are not yet
  /// written.
  void check_pages(const AttentionProblem& problem) const {
    if (recorded != nullptr) return;
    const auto* table = static_cast<const int64_t*>(problem.page_table.data);
    const auto* lengths = static_cast<const int64_t*>(problem.lengths.data);
    const auto* rows = static_cast<const int64_t*>(problem.table_rows.data);
    for (const ConstView* view : {&problem.k, &problem.v}) {
      const auto row_bytes = static_cast<int64_t>(size_of(view->dtype)) * view->strides[2];
      for (int64_t b = 0; b < problem.q.shape[0]; ++b) {
        for (int64_t page = 0; page * kPageKeys < lengths[b]; ++page) {
          const int64_t number = table[rows[b] * problem.page_table.strides[0] + page];
          check_range(kernel, static_cast<const std::byte*>(view->data) + number * kPageKeys * row_bytes,
                      static_cast<size_t>(kPageKeys * row_bytes));
        }
      }
    }
  }
  void check(const AttentionGradients& gradients) const {
    check_all(gradients.y, gradients.dy, gradients.lse, gradients.dq, gradients.dk, gradients.dv, gradients.dbias);
  }
  void check(const AttentionSelection&) const {}
  void check(const GradientClip& clip) const { check(clip.squares); }
  void check(const AdamSlot& slot) const { check_all(slot.grad, slot.param, slot.m, slot.v, slot.rates); }
  void check(const SgdSlot& slot) const { check_all(slot.grad, slot.param, slot.buffer); }
};

/// A copy of an argument for a recorded call.
template <class T>
struct Kept {
  T value;
  const T& get() const { return value; }
};
template <class T>
struct Kept<std::span<const T>> {
  std::vector<T> values;
  explicit Kept(std::span<const T> given) : values(given.begin(), given.end()) {}
  std::span<const T> get() const { return values; }
};

/// The entry kMember of the group kGroup of a table: checks the arguments, then calls the CPU's kernel.
template <auto kGroup, auto kMember>
struct Checked {
  /// The name of the entry, from an empty table. tests/backend/table_test.cpp checks the layout of a Kernel.
  static const char* name() {
    static const Kernels empty;
    struct {
      void (*function)();
      const char* name;
    } entry;
    static_assert(sizeof entry == sizeof((empty.*kGroup).*kMember));
    std::memcpy(static_cast<void*>(&entry), &((empty.*kGroup).*kMember), sizeof entry);
    return entry.name;
  }

  /// Whether the CPU's kernel needs f32 in place of 16 bits.
  static constexpr bool converts() {
    if constexpr (std::is_same_v<decltype(kMember), Kernel<void(ConstView, View)> ElementwiseKernels::*>) {
      if (kMember == &ElementwiseKernels::copy) return false;  // converts between dtypes
    }
    return !std::is_same_v<decltype(kGroup), WeightKernels Kernels::*>;
  }

  template <class Result, class... Args>
  static Result run(Args... args) {
    Arguments{name()}.check_all(args...);
    if constexpr (std::is_void_v<Result> && sizeof...(Args) > 0) {
      if (recorded != nullptr) return record<Args...>(args...);
    }
    ++launches;
    return call<Result>(args...);
  }

  template <class Result, class... Args>
  static Result call(const Args&... args) {
    if constexpr (std::is_void_v<Result> && converts()) {
      testing::Widening widening;
      ((host->cpu->*kGroup).*kMember)(widening(args)...);
    } else {
      return ((host->cpu->*kGroup).*kMember)(args...);
    }
  }

  /// Records a call. Kernels that read back or upload on a real GPU are not possible.
  template <class... Args>
  static void record(Args... args) {
    const std::string kernel = name();
    if (kernel == "index.check" || kernel == "random.normal") require_no_capture(name());
    recorded->push_back([kept = std::tuple(Kept<std::decay_t<Args>>{args}...)] {
      std::apply([](const auto&... each) { call<void>(each.get()...); }, kept);
    });
  }

  template <class Result, class... Args>
  static void put_into(Kernel<Result(Args...)>& entry) {
    entry = Kernel<Result(Args...)>([](Args... args) -> Result { return run<Result, Args...>(args...); });
  }
};

template <auto kGroup, auto... kMembers>
void put(Kernels& table) {
  (Checked<kGroup, kMembers>::put_into((table.*kGroup).*kMembers), ...);
}

void* allocate(size_t requested) {
  const size_t bytes = std::max<size_t>(64, (requested + 63) / 64 * 64);
  Memory& own = memory();
  std::lock_guard lock(own.mutex);
  static const size_t total = total_memory(), most_launches = fault_number("full_after:", SIZE_MAX);
  const size_t free = launches < most_launches ? total - own.live : 0;
  require<DeviceError>(
      bytes <= free,
      cuda::out_of_memory_text(current, {.requested = requested, .held = own.live, .free = free, .total = total}));
  void* data = std::aligned_alloc(64, bytes);
  require<DeviceError>(data != nullptr, "pretend cuda: the host is out of memory");
  std::memset(data, 0xff, bytes);  // NaN, which shows where memory is read before it is written
  own.blocks.emplace(reinterpret_cast<uintptr_t>(data), bytes);
  if (recorded != nullptr) own.captured.emplace(reinterpret_cast<uintptr_t>(data), bytes);
  own.live += bytes;
  own.peak = std::max(own.peak, own.live);
  return data;
}

void release(void* data, size_t) {
  Memory& own = memory();
  std::lock_guard lock(own.mutex);
  const auto found = own.blocks.find(reinterpret_cast<uintptr_t>(data));
  require<DeviceError>(found != own.blocks.end(), "memory.release: not a block of cuda:", current);
  own.live -= found->second;
  const bool is_kept = own.captured.contains(found->first);
  own.blocks.erase(found);
  if (!is_kept) std::free(data);
}

void check_host(const char* kernel, const void* data) {
  for (int index = 0; index < kDevices; ++index) {
    require<DeviceError>(!memory_of(index).contains(reinterpret_cast<uintptr_t>(data), 1), kernel,
                         ": a pointer of cuda:", index, " was passed for the host's memory");
  }
}

void upload(void* to, const void* from_host, size_t bytes) {
  if (bytes == 0) return;
  require_no_capture("memory.upload");
  check_range("memory.upload", to, bytes);
  check_host("memory.upload", from_host);
  std::memcpy(to, from_host, bytes);
}

void download(void* to_host, const void* from, size_t bytes) {
  if (bytes == 0) return;
  require_no_capture("memory.download");
  check_range("memory.download", from, bytes);
  check_host("memory.download", to_host);
  ++synchronizations;
  std::memcpy(to_host, from, bytes);
}

size_t live_bytes() {
  std::lock_guard lock(memory().mutex);
  return memory().live;
}
size_t peak_bytes() {
  std::lock_guard lock(memory().mutex);
  return memory().peak;
}
void reset_peak() {
  std::lock_guard lock(memory().mutex);
  memory().peak = memory().live;
}

Kernels make_table() {
  using K = Kernels;
  using E = ElementwiseKernels;
  Kernels table;
  table.memory = {.allocate = allocate,
                  .release = release,
                  .upload = upload,
                  .download = download,
                  .synchronize =
                      +[] {
                        require_no_capture("memory.synchronize");
                        ++synchronizations;
                      },
                  .live_bytes = live_bytes,
                  .peak_bytes = peak_bytes,
                  .reset_peak = reset_peak};
  put<&K::elementwise, &E::copy, &E::fill, &E::affine, &E::accumulate, &E::binary, &E::zero_padding, &E::unary,
      &E::unary_backward>(table);
  put<&K::reduce, &ReduceKernels::sum, &ReduceKernels::sum_of_squares>(table);
  using M = MatmulKernels;
  put<&K::matmul, &M::multiply, &M::multiply_gelu, &M::multiply_gelu_backward>(table);
  table.matmul.has_bf16 = +[] { return true; };
  put<&K::weights, &WeightKernels::multiply, &WeightKernels::chain, &WeightKernels::quantize,
      &WeightKernels::take_rows>(table);
  table.weights.pack = +[](const WeightMatrix&, bool, void*) { return size_t{0}; };
  using S = SoftmaxKernels;
  put<&K::softmax, &S::forward, &S::backward, &S::log_forward, &S::log_backward, &S::log_terms>(table);
  using N = NormKernels;
  put<&K::norm, &N::layer_forward, &N::layer_backward, &N::rms_forward, &N::rms_backward>(table);
  using C = CrossEntropyKernels;
  put<&K::cross_entropy, &C::count, &C::forward, &C::mean, &C::backward, &C::with_gradient>(table);
  using I = IndexKernels;
  put<&K::index, &I::check, &I::take_rows, &I::take_rows_backward, &I::gather_last, &I::gather_last_backward>(table);
  put<&K::random, &RandomKernels::uniform, &RandomKernels::normal, &RandomKernels::dropout>(table);
  put<&K::position, &PositionKernels::rotary>(table);
  put<&K::attention, &AttentionKernels::forward, &AttentionKernels::backward, &AttentionKernels::weights>(table);
  put<&K::optim, &OptimKernels::adam, &OptimKernels::sgd>(table);
  using G = GenerationKernels;
  put<&K::generation, &G::put_rows, &G::copy_runs, &G::embed, &G::best>(table);
  return table;
}

const Kernels& table() {
  static const Kernels made = make_table();
  return made;
}

void begin_capture() {
  require_no_capture("graph.begin");
  recorded = std::make_unique<Graph>();
}

void* end_capture() {
  ++memory().graphs;
  return recorded.release();
}

/// Overwrites what earlier launches have left in the memory of graphs.
void launch_graph(void* graph) {
  require_no_capture("graph.launch");
  for (const auto& [data, bytes] : memory().captured) std::memset(reinterpret_cast<void*>(data), 0xff, bytes);
  for (const auto& call : *static_cast<Graph*>(graph)) call();
  ++graph_launches;
}

void destroy_graph(void* graph) {
  delete static_cast<Graph*>(graph);
  Memory& own = memory();
  std::lock_guard lock(own.mutex);
  if (--own.graphs > 0) return;
  for (const auto& [data, bytes] : own.captured) {
    if (!own.blocks.contains(data)) std::free(reinterpret_cast<void*>(data));
  }
  own.captured.clear();
}

using testing::PretendConnection;

PretendConnection& connection_of(void* connection) { return *static_cast<PretendConnection*>(connection); }

void* exchange(void* connection, std::span<const DeviceMessage> sent, std::span<const DeviceMessage> received) {
  for (const auto& messages : {sent, received}) {
    for (const DeviceMessage& message : messages) check_range("messages.exchange", message.data, message.bytes);
  }
  return connection_of(connection).exchange(sent, received);
}

void* sum(void* connection, float* values, size_t count) {
  check_range("messages.sum", values, count * sizeof *values);
  return connection_of(connection).sum({values, count});
}

constexpr PluginMessages kMessages{
    .problem = +[]() -> std::string { return fault() == "messages" ? "" : "no messages"; },
    .name = +[]() -> std::string { return "pretended messages"; },
    .address = +[] { return std::to_string(current); },
    .invitation =
        +[] {
          static std::atomic<int> made{0};
          return std::to_string(made++);
        },
    .connect = +[](const std::string& invitation, int rank, int size) -> void* {
      return new PretendConnection(invitation, rank, size);
    },
    .disconnect = +[](void* connection) { delete &connection_of(connection); },
    .exchange = exchange,
    .sum = sum,
    .finish = PretendConnection::finish};

PluginDevice describe(int index) {
  Memory& own = memory_of(index);
  std::lock_guard lock(own.mutex);
  return {.name = "Pretend GPU",
          .total_memory = total_memory(),
          .free_memory = total_memory() - own.live,
          .architecture = 90,
          .driver = "0.0 (pretend)",
          .problem = fault() == "busy" ? cuda::busy_text(index) : ""};
}

int open() {
  require<DeviceError>(fault() != "no_driver", cuda::no_driver_text());
  require<DeviceError>(fault() != "old_driver", cuda::old_driver_text(12040, 13000));
  require<DeviceError>(fault() != "no_gpu", cuda::no_gpu_text());
  require<DeviceError>(fault() != "no_blas", cuda::no_blas_text());
  return kDevices;
}

void select(int index) {
  require<DeviceError>(fault() != "busy", cuda::busy_text(index));
  current = index;
}

constexpr Plugin kPlugin{
    .open = open,
    .describe = describe,
    .select = select,
    .table = table,
    .counters =
        +[] {
          return PluginCounters{.launches = launches.load(),
                                .graph_launches = graph_launches.load(),
                                .synchronizations = synchronizations.load()};
        },
    .graphs = {.begin = begin_capture,
               .end = end_capture,
               .abandon = +[] { recorded.reset(); },
               .launch = launch_graph,
               .destroy = destroy_graph,
               .kernels = +[](const void* graph) { return static_cast<const Graph*>(graph)->size(); }},
    .messages = kMessages};

}  // namespace
}  // namespace attend

extern "C" const attend::Plugin* attend_backend(int version, const attend::PluginHost* given) {
  if (version != attend::kPluginVersion || attend::fault() == "other_version") return nullptr;
  attend::host = given;
  return &attend::kPlugin;
}
