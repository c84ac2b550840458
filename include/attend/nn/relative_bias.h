#pragma once

#include "attend/base/random.h"
#include "attend/nn/parameters.h"

namespace attend {

struct RelativeBiasConfig {
  int64_t heads = 0;
  int64_t buckets = 32;         ///< an even number, at least 4
  int64_t max_distance = 128;   ///< all distances from here on share a bucket
  bool looks_both_ways = true;  ///< half of the buckets are for keys after the query; false: causal attention
};

/// T5's relative position bias (Raffel et al. 2020 §2.1): a learned number for each head and bucket of distances, added
/// to the scores. Small distances have a bucket each. Larger distances share buckets of logarithmically growing width.
struct RelativeBias {
  RelativeBiasConfig config;
  Tensor weight;  ///< [buckets, heads]

  /// Throws ShapeError if the config is inconsistent.
  static RelativeBias create(const RelativeBiasConfig& config, Rng& rng);

  /// The bucket of a key that is `distance` positions after the query; a negative distance means before.
  int64_t bucket(int64_t distance) const;

  struct Places {
    int64_t queries = 0, keys = 0;
    int64_t first = 0;  ///< position of the first query; keys start at position 0
  };
  /// The bias to add to the scores, [1, heads, queries, keys]. If no gradient is recorded, it is a view of one row per
  /// head and its memory is linear in the lengths.
  Tensor forward(const Places& places) const;

  static void fields(auto&& visit) { visit("weight", &RelativeBias::weight); }
};

}  // namespace attend
