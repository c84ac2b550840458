#pragma once

#include "attend/base/random.h"
#include "attend/nn/parameters.h"

namespace attend {

struct RelativeBiasConfig {
  int64_t heads = 0;
  int64_t buckets = 32;         ///< an even number, at least 4
  int64_t max_distance = 128;   ///< from here on all distances share a bucket
  bool looks_both_ways = true;  ///< half of the buckets for keys behind the query; false: for causal attention
};

/// T5's positions (Raffel et al. 2020 §2.1): a learned number for each head and distance, added to the scores. Near
/// distances have a bucket each, far ones share buckets that grow with the logarithm.
struct RelativeBias {
  RelativeBiasConfig config;
  Tensor weight;  ///< [buckets, heads]

  /// Throws ShapeError where the config does not add up.
  static RelativeBias create(const RelativeBiasConfig& config, Rng& rng);

  /// The bucket of a key that stands `distance` behind the query (negative: before it).
  int64_t bucket(int64_t distance) const;
  /// What to add to the scores of queries at positions first, first + 1, … and keys at 0, 1, …: [1, heads, queries,
  /// keys]. Without a recorded gradient it is a view of one row for each head: memory is linear in the lengths.
  struct Places {
    int64_t queries = 0, keys = 0, first = 0;
  };
  Tensor forward(const Places& places) const;

  static void fields(auto&& visit) { visit("weight", &RelativeBias::weight); }
};

}  // namespace attend
