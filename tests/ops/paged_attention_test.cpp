// Attention over keys and values in pages has the bits of attention over the same keys and values in one tensor.
#include "ops/paged_attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::host_values;

std::vector<uint32_t> bits_of(const Tensor& x) {
  std::vector<uint32_t> bits;
  for (const float value : contiguous(x).to_vector()) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

/// Sequences with `lengths` keys, of which the last `queries` are also queries.
struct Example {
  Example(PageLayout layout, std::vector<int64_t> lengths, std::vector<int64_t> queries)
      : sequences{.layout = layout, .lengths = lengths} {
    for (size_t s = 0; s < lengths.size(); ++s) {
      const auto seed = static_cast<uint64_t>(s + 1);
      keys.push_back(host_values({1, layout.key_heads, lengths[s], layout.key_dim}, seed, DType::f32));
      values.push_back(host_values({1, layout.key_heads, lengths[s], layout.value_dim}, seed + 50, DType::f32));
      sequences.offsets.push_back(sequences.offsets.back() + queries[s]);
      sequences.pages.emplace_back();
      for (int64_t first = 0; first < lengths[s]; first += kPagePositions) {
        memory.emplace_back(static_cast<size_t>(layout.bytes()),
                            uint8_t{0xff});  // NaN: unused positions must not matter
        sequences.pages.back().push_back(memory.back().data());
      }
      PagedSequences whole{layout, {0, lengths[s]}, {lengths[s]}, {sequences.pages.back()}};
      write_pages(whole, keys.back(), values.back());
      keys.back() = to(to(keys.back(), layout.dtype), DType::f32);
      values.back() = to(to(values.back(), layout.dtype), DType::f32);
    }
  }

  /// Compares each sequence with attention().
  void expect_same(int64_t heads, AttentionOptions options) const {
    const int64_t tokens = sequences.offsets.back();
    const Tensor q = host_values({1, heads, tokens, sequences.layout.key_dim}, 99, DType::f32);
    options.alignment = Alignment::bottom_right;
    const AttentionResult paged = paged_attention(q, sequences, options);
    for (size_t s = 0; s < keys.size(); ++s) {
      const int64_t begin = sequences.offsets[s], end = sequences.offsets[s + 1];
      const AttentionResult dense =
          attention_with_lse(contiguous(slice(q, 2, begin, end)), keys[s], values[s], options);
      EXPECT_EQ(bits_of(slice(paged.output, 2, begin, end)), bits_of(dense.output)) << "sequence " << s;
      EXPECT_EQ(bits_of(slice(paged.lse, 2, begin, end)), bits_of(dense.lse)) << "sequence " << s;
    }
  }

  PagedSequences sequences;
  std::vector<Tensor> keys, values;
  std::vector<std::vector<uint8_t>> memory;
};

class PagedAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (default_device() != kCpu) GTEST_SKIP() << "pages are for the CPU";
  }
};

TEST_F(PagedAttention, HasTheBitsOfAttention) {
  for (const PageLayout layout :
       {PageLayout{2, 20, 17}, PageLayout{1, 64, 64}, PageLayout{2, 3, 5}, PageLayout{2, 20, 17, DType::bf16},
        PageLayout{1, 64, 64, DType::bf16}, PageLayout{2, 33, 16, DType::bf16}, PageLayout{2, 3, 5, DType::bf16}}) {
    SCOPED_TRACE(name_of(layout.dtype));
    const Example example(layout, {1, 16, 17, 100, 203, 64, 2100}, {1, 1, 17, 40, 3, 7, 2});
    const int64_t heads = 2 * layout.key_heads;
    example.expect_same(heads, {.causal = true});
    example.expect_same(heads, {});
    example.expect_same(heads, {.causal = true, .window = 9});
    example.expect_same(heads, {.causal = true, .window = 70});
    example.expect_same(heads, {.causal = true, .alibi = host_values({heads}, 7, DType::f32), .softcap = 3});
  }
}

TEST_F(PagedAttention, PagesCanBeCopiedBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Example example({2, 8, 7, dtype}, {5, 40}, {1, 1});
    for (int64_t s = 0; s < 2; ++s) {
      const PagedCopy copy = copy_pages(example.sequences, s);
      EXPECT_EQ(bits_of(copy.keys), bits_of(example.keys[static_cast<size_t>(s)]));
      EXPECT_EQ(bits_of(copy.values), bits_of(example.values[static_cast<size_t>(s)]));
    }
  }
}

TEST_F(PagedAttention, Errors) {
  const Example example({2, 8, 8}, {5}, {3});
  expect_error<ShapeError>(
      [&] {
        paged_attention(zeros({1, 4, 2, 8}), example.sequences, {});
      },
      "paged_attention: expected q in f32 [1, 4, 3, 8], got f32 [1, 4, 2, 8]");
  expect_error<ShapeError>(
      [&] {
        paged_attention(zeros({1, 4, 3, 8}), example.sequences, {.dropout = 0.5});
      },
      "paged_attention: mask, lengths, offsets and dropout are not supported");
}

}  // namespace
}  // namespace attend
