#include "ops/ring_attention.h"

#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "ops/attention_gradients.h"
#include "ops/chunk_pair.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kRowGrain = 256;  // rows that a thread takes at once

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Two tensors in one piece of memory, so that they travel as one message: keys and values, or their gradients.
struct Block {
  Tensor memory, first, second;

  Block() = default;
  /// Uninitialised. The tensors are like `k` and `v`, with another length.
  Block(const Tensor& k, const Tensor& v, int64_t length) {
    const Shape a{k.dim(0), k.dim(1), length, k.dim(3)}, b{v.dim(0), v.dim(1), length, v.dim(3)};
    memory = empty({a.numel() + b.numel()}, {k.dtype(), kCpu});
    first = memory.as_strided(a, contiguous_strides(a), 0);
    second = memory.as_strided(b, contiguous_strides(b), a.numel());
  }
  distributed::Bytes bytes() const {
    return {static_cast<std::byte*>(memory.raw()), static_cast<size_t>(memory.numel()) * size_of(memory.dtype())};
  }
};

/// Shifts of blocks to the next rank, while the calling thread computes. A thread waits for them: MPI moves large
/// messages only during calls of its functions.
class Shifts {
 public:
  explicit Shifts(const ContextPart& part) : part_(part) {}
  Shifts(const Shifts&) = delete;
  Shifts& operator=(const Shifts&) = delete;
  ~Shifts() {
    if (done_.valid()) done_.wait();
  }

  /// Sends `mine` to the next rank; `into` comes from the previous one. Both must outlive the transfer.
  void add(const Block& mine, const Block& into) {
    if (transfers_.empty()) start_ = Clock::now();
    transfers_.push_back(part_.group().start_ring_shift(mine.bytes(), into.bytes()));
  }
  void run() {
    if (transfers_.empty()) return;
    done_ = std::async(std::launch::async, [this] {
      for (const auto& transfer : transfers_) transfer->wait();
      return since(start_);
    });
  }
  void wait() {
    if (transfers_.empty()) return;
    const auto start = Clock::now();
    part_.times().busy += done_.get();
    part_.times().exposed += since(start);
    transfers_.clear();
  }

 private:
  const ContextPart& part_;
  Clock::time_point start_;
  std::vector<std::unique_ptr<distributed::Transfer>> transfers_;
  std::future<double> done_;
};

/// Calls body(b, h, i) for each row of [batch, heads, length, …], in parallel.
template <class Body>
void for_each_row(const Tensor& x, Body&& body) {
  const int64_t heads = x.dim(1), length = x.dim(2);
  parallel_ranges(x.dim(0) * heads * length, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row / length / heads, row / length % heads, row % length);
  });
}

template <class T>
T* row_of(const Tensor& x, int64_t b, int64_t h, int64_t i) {
  const Strides& step = x.strides();
  return static_cast<T*>(x.raw()) + b * step[0] + h * step[1] + i * step[2];
}

/// Adds x to `sum`, both [batch, heads, length, dim] with dense rows.
template <class T>
void add_rows(const Tensor& x, const Tensor& sum) {
  const int64_t width = x.dim(3);
  for_each_row(x, [&](int64_t b, int64_t h, int64_t i) {
    const T* from = row_of<T>(x, b, h, i);
    T* to = row_of<T>(sum, b, h, i);
    for (int64_t d = 0; d < width; ++d) to[d] += from[d];
  });
}

void add_to(const Tensor& sum, const Tensor& x) {
  x.dtype() == DType::f32 ? add_rows<float>(x, sum) : add_rows<double>(x, sum);
}

/// Merges the output of attention to some keys into that to other keys, `total`, whose lse is f64. With weights of the
/// two parts w = e^(lse − max): y = (w₁ y₁ + w₂ y₂) / (w₁ + w₂), lse = max + ln(w₁ + w₂).
template <class T>
void merge_rows(const AttentionResult& fresh, const AttentionResult& total) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const int64_t width = fresh.output.dim(3);
  for_each_row(fresh.output, [&](int64_t b, int64_t h, int64_t i) {
    const auto lse = static_cast<double>(*row_of<T>(fresh.lse, b, h, i));
    double& merged = *row_of<double>(total.lse, b, h, i);
    if (lse == kNone) return;
    const double most = merged == kNone ? lse : std::max(merged, lse);
    const double before = std::exp(merged - most), now = std::exp(lse - most), sum = before + now;
    merged = most + std::log(sum);
    const T old_weight = static_cast<T>(before / sum), weight = static_cast<T>(now / sum);
    const T* from = row_of<T>(fresh.output, b, h, i);
    T* y = row_of<T>(total.output, b, h, i);
    for (int64_t d = 0; d < width; ++d) y[d] = old_weight * y[d] + weight * from[d];
  });
}

void merge(const AttentionResult& fresh, const AttentionResult& total) {
  fresh.output.dtype() == DType::f32 ? merge_rows<float>(fresh, total) : merge_rows<double>(fresh, total);
}

/// A call of ring_attention().
struct Ring {
  Tensor q, k, v;
  AttentionOptions options;
  const ContextPart* part;

  int ranks() const { return part->group().size(); }
  /// The rank whose keys visit this one in a step.
  int owner(int step) const { return (part->group().rank() + ranks() - step) % ranks(); }

  /// Calls body(pair, queries, keys) for the pairs of this rank's queries and the keys of `owner` that see each other.
  /// `queries` and `keys` are their places within the parts of the ranks.
  template <class Body>
  void for_each_pair(int owner, Body&& body) const {
    int64_t first_query = 0;
    for (const PositionRange& queries : part->chunks()) {
      int64_t first_key = 0;
      for (const PositionRange& keys : part->chunks(owner)) {
        const auto place = [](PositionRange range, PositionRange chunk, int64_t first) -> PositionRange {
          return {range.begin - chunk.begin + first, range.end - chunk.begin + first};
        };
        if (const auto pair = chunk_pair(queries, keys, options)) {
          body(pair->options, place(pair->queries, queries, first_query), place(pair->keys, keys, first_key));
        }
        first_key += keys.size();
      }
      first_query += queries.size();
    }
  }
};

Tensor rows_in(const Tensor& x, PositionRange range) { return slice(x, 2, range.begin, range.end); }

Block packed(const Ring& ring) {
  const Block block(ring.k, ring.v, ring.k.dim(2));
  copy_values(ring.k, block.first);
  copy_values(ring.v, block.second);
  return block;
}

AttentionResult forward(const Ring& ring) {
  const NoGrad scope;
  const Tensor y = empty_output(ring.q, ring.v.dim(3));
  copy_values(zeros(y.shape(), {y.dtype(), kCpu}), y);
  const AttentionResult total{
      y, full({y.dim(0), y.dim(1), y.dim(2)}, -std::numeric_limits<double>::infinity(), {DType::f64, kCpu})};
  Block visiting = packed(ring), next;
  for (int step = 0; step < ring.ranks(); ++step) {
    Shifts shifts(*ring.part);
    if (step + 1 < ring.ranks()) {
      next = Block(ring.k, ring.v, ring.part->size(ring.owner(step + 1)));
      shifts.add(visiting, next);
      shifts.run();
    }
    ring.for_each_pair(ring.owner(step),
                       [&](const AttentionOptions& options, PositionRange queries, PositionRange keys) {
                         merge(attention_with_lse(rows_in(ring.q, queries), rows_in(visiting.first, keys),
                                                  rows_in(visiting.second, keys), options),
                               {rows_in(y, queries), rows_in(total.lse, queries)});
                       });
    shifts.wait();
    visiting = std::exchange(next, {});
  }
  return {y, to(total.lse, y.dtype())};
}

/// The gradients of this rank's queries, added to dq, and of the visiting keys and values.
Block gradients_of(const Ring& ring, int owner, const Block& visiting, const AttentionRows& rows, const Tensor& dq) {
  const Block sums(ring.k, ring.v, ring.part->size(owner));
  copy_values(zeros(sums.memory.shape(), {sums.memory.dtype(), kCpu}), sums.memory);
  ring.for_each_pair(owner, [&](const AttentionOptions& options, PositionRange queries, PositionRange keys) {
    const Gradients gradients =
        attention_gradients(rows_in(ring.q, queries), rows_in(visiting.first, keys), rows_in(visiting.second, keys),
                            options, {rows_in(rows.y, queries), rows_in(rows.lse, queries), rows_in(rows.dy, queries)});
    add_to(rows_in(dq, queries), gradients[0]);
    add_to(rows_in(sums.first, keys), gradients[1]);
    add_to(rows_in(sums.second, keys), gradients[2]);
  });
  return sums;
}

/// The gradients of a rank's keys are added in the order in which they visit the ranks. Those of a step's keys are on
/// their way from the previous rank while this rank computes its own part of them.
Gradients backward(const Ring& ring, const AttentionRows& rows) {
  const NoGrad scope;
  const Tensor dq = zeros_like(ring.q);
  Block visiting = packed(ring), next, mine, arriving;  // keys and values; gradients of the last and of this step's
  for (int step = 0; step < ring.ranks(); ++step) {
    const int owner = ring.owner(step);
    Shifts shifts(*ring.part);
    if (step + 1 < ring.ranks()) {
      next = Block(ring.k, ring.v, ring.part->size(ring.owner(step + 1)));
      shifts.add(visiting, next);
    }
    if (step > 0) {
      arriving = Block(ring.k, ring.v, ring.part->size(owner));
      shifts.add(mine, arriving);
    }
    shifts.run();
    Block own = gradients_of(ring, owner, visiting, rows, dq);
    shifts.wait();
    if (step > 0) {
      add_to(arriving.first, own.first);
      add_to(arriving.second, own.second);
      own = arriving;
    }
    mine = own;
    visiting = std::exchange(next, {});
  }
  if (ring.ranks() > 1) {
    arriving = Block(ring.k, ring.v, ring.k.dim(2));
    Shifts shifts(*ring.part);
    shifts.add(mine, arriving);
    shifts.run();
    shifts.wait();
    mine = arriving;
  }
  return {dq, mine.first, mine.second};
}

void check(const Ring& ring) {
  const AttentionOptions& options = ring.options;
  require<ShapeError>(!options.mask, "ring_attention: a mask cannot be divided among ranks");
  require<ShapeError>(!options.bias, "ring_attention: a bias cannot be divided among ranks");
  require<ShapeError>(!options.q_offsets && !options.k_offsets,
                      "ring_attention: packed sequences cannot be divided among ranks");
  for (const Tensor* x : {&ring.q, &ring.k, &ring.v}) {
    require<ShapeError>(x->rank() == 4 && x->dim(2) == ring.part->size(), "ring_attention: expected [batch, heads, ",
                        ring.part->size(), ", head_dim], got ", x->shape());
    require<DeviceError>(x->device() == kCpu, "ring_attention: needs tensors on the CPU, got ", x->device());
  }
}

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      const ContextPart& part) {
  const Ring ring{q.detach(), k.detach(), v.detach(), options, &part};
  check(ring);
  const auto [y, lse] = forward(ring);
  return record("ring_attention", y, {q, k, v}, [ring, y = y, lse = lse](const Tensor& dy) -> Gradients {
    const bool is_dense = dy.dim(3) <= 1 || dy.strides()[3] == 1;
    return backward(ring, {y, lse, is_dense ? dy.detach() : dy.clone()});
  });
}

}  // namespace attend
