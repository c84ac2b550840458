#include "ops/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "attend/base/threads.h"
#include "attend/tensor/creation.h"
#include "ops/broadcast.h"
#include "ops/check.h"

namespace attend {
namespace {

static_assert(kPagePositions == kPageKeys);

void check_paged(const Tensor& x, const char* what, int64_t heads, int64_t width, int64_t tokens) {
  require<ShapeError>(x.rank() == 4 && x.shape() == Shape{1, heads, tokens, width} && x.dtype() == DType::f32 &&
                          x.device() == kCpu && x.strides()[3] == 1,
                      "paged_attention: expected ", what, " in f32 [1, ", heads, ", ", tokens, ", ", width, "], got ",
                      x.dtype(), " ", x.shape());
}

/// The keys or the values of a page: `first` is the number of elements before them at each position.
struct PagePart {
  const PageLayout& layout;
  int64_t first, width;

  int64_t element_bytes() const { return static_cast<int64_t>(size_of(layout.dtype)); }
  auto row_bytes() const { return static_cast<size_t>(width * element_bytes()); }
  std::byte* row(void* page, int64_t head, int64_t position) const {
    const int64_t element = kPagePositions * (first + head * width) + position % kPagePositions * width;
    return static_cast<std::byte*>(page) + element * element_bytes();
  }
};

PagePart keys_in(const PageLayout& layout) { return {layout, 0, layout.key_dim}; }
PagePart values_in(const PageLayout& layout) { return {layout, layout.key_heads * layout.key_dim, layout.value_dim}; }

const std::byte* row_of(const Tensor& x, int64_t head, int64_t token) {
  const int64_t element = head * x.strides()[1] + token * x.strides()[2];
  return static_cast<const std::byte*>(x.view().data) + element * static_cast<int64_t>(size_of(x.dtype()));
}

}  // namespace

int64_t PagedSequences::longest() const { return lengths.empty() ? 0 : *std::ranges::max_element(lengths); }

void write_pages(const PagedSequences& sequences, const Tensor& keys, const Tensor& values) {
  const PageLayout& layout = sequences.layout;
  const int64_t tokens = sequences.offsets.back(), heads = layout.key_heads;
  check_paged(keys, "keys", heads, layout.key_dim, tokens);
  check_paged(values, "values", heads, layout.value_dim, tokens);
  const PagePart key_part = keys_in(layout), value_part = values_in(layout);
  const Tensor stored_keys = to(keys, layout.dtype), stored_values = to(values, layout.dtype);
  const auto write = [&](size_t s, int64_t token) {
    const int64_t position = sequences.lengths[s] - (sequences.offsets[s + 1] - token);
    void* page = sequences.pages[s][static_cast<size_t>(position / kPagePositions)];
    for (int64_t head = 0; head < heads; ++head) {
      std::memcpy(key_part.row(page, head, position), row_of(stored_keys, head, token), key_part.row_bytes());
      std::memcpy(value_part.row(page, head, position), row_of(stored_values, head, token), value_part.row_bytes());
    }
  };
  constexpr int64_t kLeastBytes = 1 << 16;  // for a task of its own
  parallel_ranges(
      tokens, kLeastBytes * kPagePositions / std::max<int64_t>(1, layout.bytes()), [&](int64_t begin, int64_t end) {
        auto s =
            static_cast<size_t>(std::ranges::upper_bound(sequences.offsets, begin) - sequences.offsets.begin() - 1);
        for (int64_t token = begin; token < end; ++token) {
          while (token >= sequences.offsets[s + 1]) ++s;
          write(s, token);
        }
      });
}

AttentionResult paged_attention(const Tensor& q, const PagedSequences& sequences, const AttentionOptions& options) {
  const PageLayout& layout = sequences.layout;
  require<ShapeError>(q.rank() == 4 && q.dim(1) % layout.key_heads == 0, "paged_attention: expected q [1, heads, ",
                      "tokens, dim] with a multiple of ", layout.key_heads, " heads, got ", q.shape());
  check_paged(q, "q", q.dim(1), layout.key_dim, sequences.offsets.back());
  require<ShapeError>(!options.mask && !options.lengths && !options.q_offsets && options.dropout == 0,
                      "paged_attention: mask, lengths, offsets and dropout are not supported");
  const int64_t tokens = q.dim(2), longest = sequences.longest();
  std::vector<const void* const*> tables;
  for (const std::vector<void*>& pages : sequences.pages) tables.push_back(pages.data());
  const Tensor memory = empty({1, tokens, q.dim(1), layout.value_dim});  // heads can be merged without a copy
  const Tensor y = memory.as_strided({1, q.dim(1), tokens, layout.value_dim},
                                     {memory.strides()[0], memory.strides()[2], memory.strides()[1], 1}, 0);
  const Tensor lse = empty({1, q.dim(1), tokens});
  const Tensor offsets = tensor(sequences.offsets, {std::ssize(sequences.offsets)});
  const Tensor lengths = tensor(sequences.lengths, {sequences.count()});
  const auto described = [&](int64_t width) {
    const Shape shape{1, layout.key_heads, longest, width};
    return ConstView{nullptr, layout.dtype, shape, contiguous_strides(shape)};
  };
  AttentionProblem problem{.q = q.view(),
                           .k = described(layout.key_dim),
                           .v = described(layout.value_dim),
                           .lengths = lengths.view(),
                           .q_offsets = offsets.view(),
                           .causal = options.causal,
                           .bottom_right = true,
                           .window = options.window,
                           .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(layout.key_dim))),
                           .softcap = options.softcap,
                           .pages = tables.data()};
  if (options.alibi) problem.alibi = options.alibi.view();
  Tensor bias;
  if (options.bias) {
    bias = stretched(options.bias, {1, q.dim(1), tokens, longest}, "paged_attention");
    problem.bias = bias.view();
  }
  kernels(kCpu).attention.forward(problem, y.view(), lse.view());
  return {y, lse};
}

PagedCopy copy_pages(const PagedSequences& sequences, int64_t s) {
  const PageLayout& layout = sequences.layout;
  const int64_t length = sequences.lengths[static_cast<size_t>(s)], heads = layout.key_heads;
  const auto copied = [&](const PagePart& part) {
    const Tensor copy = empty({1, heads, length, part.width}, {layout.dtype, kCpu});
    auto* row = static_cast<std::byte*>(copy.view().data);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t position = 0; position < length; ++position, row += part.row_bytes()) {
        void* page = sequences.pages[static_cast<size_t>(s)][static_cast<size_t>(position / kPagePositions)];
        std::memcpy(row, part.row(page, head, position), part.row_bytes());
      }
    }
    return to(copy, DType::f32);
  };
  return {copied(keys_in(layout)), copied(values_in(layout))};
}

}  // namespace attend
