#include "ops/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "attend/base/threads.h"
#include "attend/tensor/creation.h"
#include "backend/with_bits.h"
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

/// Where a page has the keys or the values of its positions.
struct PagePart {
  int64_t first;              ///< place of the first head
  int64_t width;              ///< number of features
  int64_t position, feature;  ///< strides from one to the next

  int64_t place(int64_t head, int64_t at) const {
    return first + head * width * kPagePositions + at % kPagePositions * position;
  }
};

PagePart keys_in(const PageLayout& layout) { return {0, layout.key_dim, 1, kPagePositions}; }
PagePart values_in(const PageLayout& layout) {
  return {kPagePositions * layout.key_heads * layout.key_dim, layout.value_dim, layout.value_dim, 1};
}

/// Writes positions [begin, end) of one page from the tokens of x [1, heads, tokens, width] that begin at `token`.
template <class Bits>
void write_part(const Tensor& x, int64_t token, const PagePart& part, int64_t begin, int64_t end, Bits* page) {
  for (int64_t head = 0; head < x.dim(1); ++head) {
    const Bits* from = static_cast<const Bits*>(x.view().data) + head * x.strides()[1] + token * x.strides()[2];
    for (int64_t at = begin; at < end; ++at, from += x.strides()[2]) {
      Bits* to = page + part.place(head, at);
      for (int64_t c = 0; c < part.width; ++c) to[c * part.feature] = from[c];
    }
  }
}

}  // namespace

int64_t PagedSequences::longest() const { return lengths.empty() ? 0 : *std::ranges::max_element(lengths); }

void write_pages(const PagedSequences& sequences, const Tensor& keys, const Tensor& values) {
  const PageLayout& layout = sequences.layout;
  const int64_t tokens = sequences.offsets.back(), heads = layout.key_heads;
  check_paged(keys, "keys", heads, layout.key_dim, tokens);
  check_paged(values, "values", heads, layout.value_dim, tokens);
  const Tensor stored_keys = to(keys, layout.dtype), stored_values = to(values, layout.dtype);
  const auto write = [&](size_t s, int64_t token, int64_t end) {
    for (int64_t count = 0; token < end; token += count) {
      const int64_t position = sequences.lengths[s] - (sequences.offsets[s + 1] - token);
      count = std::min(end - token, kPagePositions - position % kPagePositions);
      void* page = sequences.pages[s][static_cast<size_t>(position / kPagePositions)];
      with_bits(layout.dtype, [&](auto bits) {
        auto* own = static_cast<decltype(bits)*>(page);
        write_part(stored_keys, token, keys_in(layout), position, position + count, own);
        write_part(stored_values, token, values_in(layout), position, position + count, own);
      });
    }
  };
  constexpr int64_t kLeastBytes = 1 << 16;  // for a task of its own
  parallel_ranges(
      tokens, kLeastBytes * kPagePositions / std::max<int64_t>(1, layout.bytes()), [&](int64_t begin, int64_t end) {
        auto s =
            static_cast<size_t>(std::ranges::upper_bound(sequences.offsets, begin) - sequences.offsets.begin() - 1);
        for (; begin < end; ++s) {
          const int64_t next = std::min(end, sequences.offsets[s + 1]);
          write(s, begin, next);
          begin = std::max(begin, next);
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
    with_bits(layout.dtype, [&](auto bits) {
      using Bits = decltype(bits);
      auto* row = static_cast<Bits*>(copy.view().data);
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t at = 0; at < length; ++at, row += part.width) {
          const void* page = sequences.pages[static_cast<size_t>(s)][static_cast<size_t>(at / kPagePositions)];
          const Bits* from = static_cast<const Bits*>(page) + part.place(head, at);
          for (int64_t c = 0; c < part.width; ++c) row[c] = from[c * part.feature];
        }
      }
    });
    return to(copy, DType::f32);
  };
  return {copied(keys_in(layout)), copied(values_in(layout))};
}

}  // namespace attend
