#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "attend/ops/attention.h"
#include "attend/ops/position.h"
#include "testing/gradients.h"

// Every option of attention, alone and combined, at sizes that do and do not fill panels and blocks.
namespace attend::testing {

/// Sizes and options of one case, which determine its inputs.
struct Case {
  std::string name;
  int64_t batch = 1, heads = 2, kv_heads = 2, queries = 7, keys = 7, dim = 5, width = 5;
  std::function<void(const Case&, AttentionOptions&)> set = [](const Case&, AttentionOptions&) {};
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline Tensor random_mask(const Shape& shape, uint64_t seed) {
  std::vector<uint8_t> bytes;
  for (double x : random_f64(shape, seed).to_vector<double>()) bytes.push_back(x > -0.3);
  return bool_tensor(bytes, shape);
}

inline std::vector<Case> cases() {
  using C = const Case&;
  using O = AttentionOptions&;
  std::vector<Case> list{
      {.name = "plain"},
      {.name = "one", .queries = 1, .keys = 1, .dim = 1, .width = 1},
      {.name = "causal", .set = [](C, O o) { o.causal = true; }},
      {.name = "causal_long", .queries = 75, .keys = 75, .dim = 9, .width = 4, .set = [](C, O o) { o.causal = true; }},
      {.name = "cross_wide_value", .queries = 5, .keys = 11, .dim = 3, .width = 8},
      {.name = "more_queries", .queries = 13, .keys = 3, .set = [](C, O o) { o.causal = true; }},
      {.name = "bottom_right",
       .queries = 4,
       .keys = 9,
       .set =
           [](C, O o) {
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "bottom_right_more_queries",
       .queries = 9,
       .keys = 4,
       .set =
           [](C, O o) {
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "window", .queries = 33, .keys = 33, .set = [](C, O o) { o.window = 4; }},
      {.name = "window_causal",
       .queries = 33,
       .keys = 33,
       .set =
           [](C, O o) {
             o.window = 5;
             o.causal = true;
           }},
      {.name = "window_bottom_right",
       .queries = 6,
       .keys = 40,
       .set =
           [](C, O o) {
             o.window = 7;
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "mask",
       .batch = 2,
       .set =
           [](C c, O o) {
             o.mask = random_mask({c.batch, c.heads, c.queries, c.keys}, 5);
           }},
      {.name = "mask_keys",
       .batch = 2,
       .set =
           [](C c, O o) {
             o.mask = random_mask({c.batch, 1, 1, c.keys}, 6);
           }},
      {.name = "mask_rows",
       .set =
           [](C c, O o) {
             o.mask = random_mask({c.queries, c.keys}, 6);
           }},
      {.name = "bias",
       .batch = 2,
       .set =
           [](C c, O o) {
             o.bias = random_f64({c.batch, c.heads, c.queries, c.keys}, 7);
           }},
      {.name = "bias_over_batch",
       .batch = 3,
       .set =
           [](C c, O o) {
             o.bias = random_f64({c.heads, c.queries, c.keys}, 8);
             o.causal = true;
           }},
      {.name = "bias_over_heads",
       .batch = 2,
       .set =
           [](C c, O o) {
             o.bias = random_f64({c.batch, 1, c.queries, c.keys}, 8);
           }},
      {.name = "bias_over_rows",
       .batch = 2,
       .set =
           [](C c, O o) {
             o.bias = random_f64({1, 1, 1, c.keys}, 8);
           }},
      {.name = "bias_over_keys",
       .set =
           [](C c, O o) {
             o.bias = random_f64({1, c.heads, c.queries, 1}, 8);
           }},
      {.name = "lengths",
       .batch = 3,
       .set =
           [](C, O o) {
             o.lengths = tensor<int64_t>({3, 0, 7}, {3});
           }},
      {.name = "lengths_causal_bottom_right",
       .batch = 3,
       .set =
           [](C, O o) {
             o.lengths = tensor<int64_t>({3, 1, 7}, {3});
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "alibi",
       .heads = 4,
       .kv_heads = 4,
       .set =
           [](C c, O o) {
             o.alibi = alibi_slopes(c.heads, DType::f64);
             o.causal = true;
           }},
      {.name = "softcap",
       .set =
           [](C, O o) {
             o.softcap = 0.5;
             o.scale = 1.3;
           }},
      {.name = "scale", .set = [](C, O o) { o.scale = 0.3; }},
      {.name = "scale_negative", .set = [](C, O o) { o.scale = -0.7; }},
      {.name = "gqa", .batch = 2, .heads = 6, .kv_heads = 2, .set = [](C, O o) { o.causal = true; }},
      {.name = "mqa", .heads = 4, .kv_heads = 1},
      {.name = "one_query",
       .batch = 2,
       .heads = 4,
       .kv_heads = 2,
       .queries = 1,
       .keys = 77,
       .set =
           [](C, O o) {
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "three_queries",
       .heads = 4,
       .kv_heads = 2,
       .queries = 3,
       .keys = 70,
       .set =
           [](C c, O o) {
             o.softcap = 2;
             o.alibi = alibi_slopes(4, DType::f64);
             o.bias = random_f64({c.heads, c.queries, c.keys}, 3);
             o.mask = random_mask({c.queries, c.keys}, 4);
           }},
      {.name = "dropout",
       .queries = 9,
       .keys = 70,
       .set =
           [](C, O o) {
             o.dropout = 0.4;
             o.random = {11, 3};
           }},
      {.name = "dropout_one_query",
       .queries = 1,
       .keys = 70,
       .set =
           [](C, O o) {
             o.dropout = 0.4;
             o.random = {11, 3};
           }},
      {.name = "varlen",
       .queries = 12,
       .keys = 15,
       .set =
           [](C, O o) {
             o.q_offsets = tensor<int64_t>({0, 4, 4, 12}, {4});
             o.k_offsets = tensor<int64_t>({0, 3, 8, 15}, {4});
             o.causal = true;
             o.alignment = Alignment::bottom_right;
           }},
      {.name = "varlen_bias_dropout",
       .queries = 12,
       .keys = 15,
       .set =
           [](C c, O o) {
             o.q_offsets = tensor<int64_t>({0, 5, 12}, {3});
             o.k_offsets = tensor<int64_t>({0, 8, 15}, {3});
             o.bias = random_f64({c.heads, c.queries, c.keys}, 8);
             o.dropout = 0.2;
           }},
      {.name = "everything",
       .batch = 2,
       .heads = 4,
       .kv_heads = 2,
       .queries = 30,
       .keys = 37,
       .set =
           [](C c, O o) {
             o.causal = true;
             o.alignment = Alignment::bottom_right;
             o.window = 20;
             o.mask = random_mask({c.batch, 1, c.queries, c.keys}, 2);
             o.bias = random_f64({c.heads, c.queries, c.keys}, 3);
             o.lengths = tensor<int64_t>({37, 31}, {2});
             o.alibi = alibi_slopes(c.heads, DType::f64);
             o.softcap = 3;
             o.scale = 0.8;
             o.dropout = 0.1;
             o.random = {5, 6};
           }},
      {.name = "no_keys", .queries = 3, .keys = 0},
      {.name = "no_queries", .queries = 0, .keys = 3},
      {.name = "no_batch", .batch = 0},
  };
  for (int64_t n : {31, 33, 257}) {
    for (int64_t d : {1, 31, 64}) {
      list.push_back({.name = std::string("n").append(std::to_string(n)).append("_d").append(std::to_string(d)),
                      .heads = 1,
                      .kv_heads = 1,
                      .queries = n,
                      .keys = n,
                      .dim = d,
                      .width = d,
                      .set = [](C, O o) { o.causal = true; }});
    }
  }
  return list;
}

struct Inputs {
  Tensor q, k, v;
  AttentionOptions options;
};

inline Inputs inputs_of(const Case& c) {
  Inputs in{random_f64({c.batch, c.heads, c.queries, c.dim}, 1),
            random_f64({c.batch, c.kv_heads, c.keys, c.dim}, 2),
            random_f64({c.batch, c.kv_heads, c.keys, c.width}, 3),
            {}};
  c.set(c, in.options);
  return in;
}

inline AttentionOptions in_f32(AttentionOptions options) {
  if (options.bias) options.bias = to(options.bias, DType::f32);
  if (options.alibi) options.alibi = to(options.alibi, DType::f32);
  return options;
}

}  // namespace attend::testing
