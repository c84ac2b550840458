#pragma once

// The keys that a query sees by position.
namespace attend::cuda {

#ifdef __CUDACC__
#define ATTEND_BOTH __host__ __device__ __forceinline__
#else
#define ATTEND_BOTH inline
#endif

ATTEND_BOTH int smaller(int a, int b) { return a < b ? a : b; }
ATTEND_BOTH int larger(int a, int b) { return a > b ? a : b; }
ATTEND_BOTH int divide_up(int a, int b) { return (a + b - 1) / b; }

/// The options that decide which keys a query sees by position.
struct VisibilityOptions {
  int queries = 0, keys = 0;
  bool causal = false, bottom_right = false;
  int window = 0;  ///< 0: no window
};

/// The keys [begin(i), end(i)) that query i of a sequence sees. Both ends increase with i.
struct Visibility {
  int keys, shift, window;
  bool causal;

  ATTEND_BOTH Visibility(const VisibilityOptions& options, int sequence_queries, int sequence_keys)
      : keys(sequence_keys),
        shift(options.bottom_right ? sequence_keys - sequence_queries : 0),
        window(options.window),
        causal(options.causal) {}
  /// A sequence with all queries of the problem.
  ATTEND_BOTH Visibility(const VisibilityOptions& options, int sequence_keys)
      : Visibility(options, options.queries, sequence_keys) {}

  ATTEND_BOTH int begin(int i) const { return window > 0 ? smaller(larger(i + shift - window + 1, 0), keys) : 0; }
  ATTEND_BOTH int end(int i) const {
    const int limit = causal ? i + shift + 1 : window > 0 ? i + shift + window : keys;
    return larger(smaller(limit, keys), begin(i));
  }
  /// Queries [query_begin, query_end) see keys of [first, last), before the ends of the sequence are taken into
  /// account.
  ATTEND_BOTH int query_begin(int first) const {
    return larger(causal ? first - shift : window > 0 ? first - shift - window + 1 : 0, 0);
  }
  ATTEND_BOTH int query_end(int last, int queries) const {
    return window > 0 ? larger(smaller(last - 1 - shift + window, queries), 0) : queries;
  }
};

}  // namespace attend::cuda
