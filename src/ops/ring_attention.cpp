#include "ops/ring_attention.h"

#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "ops/attention_gradients.h"
#include "ops/chunk_pair.h"
#include "ops/merge_rows.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;

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

/// Pairs of a query chunk and a key chunk.
enum class Pairs { all, of_one_chunk, of_two_chunks };

/// A call of ring_attention().
struct Ring {
  Tensor q, k, v;
  AttentionOptions options;
  const ContextPart* part;

  int ranks() const { return part->group().size(); }
  /// The rank whose keys visit this one in a step.
  int owner(int step) const { return (part->group().rank() + ranks() - step) % ranks(); }

  /// Calls body(options, queries, keys) for the pairs of this rank's queries and the keys of `owner` that see each
  /// other. `queries` and `keys` are their places within the parts of the ranks.
  template <class Body>
  void for_each_pair(int owner, Pairs pairs, Body&& body) const {
    int64_t first_query = 0;
    for (const PositionRange& queries : part->chunks()) {
      int64_t first_key = 0;
      for (const PositionRange& keys : part->chunks(owner)) {
        const bool is_wanted = pairs == Pairs::all || (pairs == Pairs::of_one_chunk) == (queries == keys);
        const auto place = [](PositionRange range, PositionRange chunk, int64_t first) -> PositionRange {
          return {range.begin - chunk.begin + first, range.end - chunk.begin + first};
        };
        if (const auto pair = is_wanted ? chunk_pair(queries, keys, options) : std::nullopt) {
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
    ring.for_each_pair(ring.owner(step), Pairs::all,
                       [&](const AttentionOptions& options, PositionRange queries, PositionRange keys) {
                         merge_attention(attention_with_lse(rows_in(ring.q, queries), rows_in(visiting.first, keys),
                                                            rows_in(visiting.second, keys), options),
                                         {rows_in(y, queries), rows_in(total.lse, queries)});
                       });
    shifts.wait();
    visiting = std::exchange(next, {});
  }
  return {y, to(total.lse, y.dtype())};
}

/// The backward pass of a rank.
struct Backward {
  const Ring& ring;
  AttentionRows rows;
  Tensor dq;

  /// The gradients of the visiting keys and values through this rank's queries. Adds those of the queries to dq.
  Block gradients(const Block& visiting, int owner, Pairs pairs) const {
    const Block sums(ring.k, ring.v, ring.part->size(owner));
    copy_values(zeros(sums.memory.shape(), {sums.memory.dtype(), kCpu}), sums.memory);
    ring.for_each_pair(owner, pairs, [&](const AttentionOptions& options, PositionRange queries, PositionRange keys) {
      const Gradients parts = attention_gradients(
          rows_in(ring.q, queries), rows_in(visiting.first, keys), rows_in(visiting.second, keys), options,
          {rows_in(rows.y, queries), rows_in(rows.lse, queries), rows_in(rows.dy, queries)});
      add_to(rows_in(dq, queries), parts[0]);
      add_to(rows_in(sums.first, keys), parts[1]);
      add_to(rows_in(sums.second, keys), parts[2]);
    });
    return sums;
  }

  /// One step: while `visiting` and `sums`, which may be empty, travel to the next rank, computes the gradients of the
  /// visiting keys, and adds them to the sums that arrive. Replaces `visiting` and `sums` by what has arrived.
  void step(Block& visiting, Block& sums, int owner, int next_owner, Pairs pairs) const {
    Block next, arriving;
    Shifts shifts(*ring.part);
    if (next_owner >= 0) {
      next = Block(ring.k, ring.v, ring.part->size(next_owner));
      shifts.add(visiting, next);
    }
    if (sums.memory) {
      arriving = Block(ring.k, ring.v, ring.part->size(owner));
      shifts.add(sums, arriving);
    }
    shifts.run();
    const Block own = gradients(visiting, owner, pairs);
    shifts.wait();
    if (arriving.memory) {
      add_to(arriving.first, own.first);
      add_to(arriving.second, own.second);
    }
    sums = arriving.memory ? arriving : own;
    visiting = next;
  }
};

/// The sums of the gradients of a rank's keys start at this rank and visit all ranks after the keys: while a rank
/// computes its part, the sum of those before it arrives. At the end the sums come home; so that this time is used too,
/// each rank leaves its own keys for then, except the pairs of one chunk.
Gradients backward(const Ring& ring, const AttentionRows& rows) {
  const NoGrad scope;
  const Backward pass{ring, rows, zeros_like(ring.q)};
  Block visiting = packed(ring), sums;
  const int ranks = ring.ranks();
  if (ranks == 1) {
    pass.step(visiting, sums, 0, -1, Pairs::all);
    return {pass.dq, sums.first, sums.second};
  }
  for (int step = 0; step < ranks; ++step) {
    const int next = step + 1 < ranks ? ring.owner(step + 1) : -1;
    pass.step(visiting, sums, ring.owner(step), next, step == 0 ? Pairs::of_one_chunk : Pairs::all);
  }
  visiting.first = ring.k, visiting.second = ring.v;
  pass.step(visiting, sums, ring.owner(0), -1, Pairs::of_two_chunks);
  return {pass.dq, sums.first, sums.second};
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
    require<ShapeError>(x->dtype() == ring.q.dtype(), "ring_attention: q, k and v must have one dtype, got ",
                        ring.q.dtype(), " and ", x->dtype());
  }
  if (!options.lengths) return;
  for (const int64_t length : options.lengths.to_vector<int64_t>()) {
    require<ShapeError>(length >= 0 && length <= ring.part->length(), "ring_attention: a length of ", length,
                        " is outside 0 … ", ring.part->length());
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
