#pragma once

#include "backend/cuda/attention/hopper_forward.h"

// The tiles of the forward pass on Hopper, and the warps that copy them to shared memory.
namespace attend::cuda {
namespace {

/// The next tile and the number of CTAs that have finished, both 0 between launches.
__device__ unsigned tile_counter[2];

/// A tile of queries of one sequence and head.
struct Tile {
  int batch;  ///< −1: no more tiles
  int head, sequence, first_query;
  int q_begin, queries, k_begin, keys;  ///< of the sequence

  __device__ __forceinline__ Visibility visibility(const ForwardArguments& args) const {
    VisibilityOptions options = args.visibility;
    options.queries = queries;
    return Visibility(options, keys);
  }
};

/// Tile `index`. Those of packed sequences do not all exist: first_query is then not below `queries`.
__device__ __forceinline__ Tile tile_of(const ForwardArguments& args, int index, int rows) {
  const int per_section = args.section * args.query_blocks, section = index / per_section;
  const int rest = index - section * per_section, all = args.tiles / args.query_blocks;
  const int width = min(args.section, all - section * args.section);
  const int block = rest / width, slice = section * args.section + rest - block * width;
  Tile tile;
  tile.batch = slice / args.heads;
  tile.head = slice - tile.batch * args.heads;
  if (args.q_offsets != nullptr) {
    const PackedBlock found = packed_block(args.q_offsets, args.sequences, rows, block);
    tile.sequence = found.sequence;
    tile.q_begin = found.begin;
    tile.queries = found.length;
    tile.k_begin = static_cast<int>(args.k_offsets[found.sequence]);
    tile.keys = static_cast<int>(args.k_offsets[found.sequence + 1]) - tile.k_begin;
    // The last queries see the most keys if causal, and go first.
    const int last = (found.length - 1) / rows * rows;
    tile.first_query = found.first < found.length ? last - found.first : found.first;
  } else {
    tile.sequence = tile.q_begin = tile.k_begin = 0;
    tile.queries = args.visibility.queries;
    tile.keys = args.lengths != nullptr ? static_cast<int>(args.lengths[tile.batch]) : args.visibility.keys;
    tile.first_query = (args.query_blocks - 1 - block) * rows;
  }
  return tile;
}

/// The tile that the producer has written. One lane reads it and passes it on, because the same lane releases it.
__device__ __forceinline__ Tile read_tile(const Tile& from, int lane) {
  Tile tile{};
  if (lane == 0) tile = from;
  const auto share = [](int& x) { x = __shfl_sync(0xffffffff, x, 0); };
  share(tile.batch);
  share(tile.head);
  share(tile.sequence);
  share(tile.first_query);
  share(tile.q_begin);
  share(tile.queries);
  share(tile.k_begin);
  share(tile.keys);
  return tile;
}

/// Tiles of biases and masks of kGroups warpgroups.
template <int kGroups, bool kBiases, bool kMasks>
struct PairTiles {
  static constexpr int kStages = kBiases && kMasks ? 1 : 2;
  static constexpr int kMaskBytes = 64 * kPairKeys, kBiasBytes = 2 * kMaskBytes;
  alignas(1024) char tiles[kStages][kGroups][(kBiases ? kBiasBytes : 0) + (kMasks ? kMaskBytes : 0)];
  uint64_t full[kStages][kGroups], empty[kStages][kGroups];

  __device__ __forceinline__ char* bias(int stage, int group) { return tiles[stage][group]; }
  __device__ __forceinline__ char* mask(int stage, int group) {
    return tiles[stage][group] + (kBiases ? kBiasBytes : 0);
  }
};
template <int kGroups>
struct PairTiles<kGroups, false, false> {
  static constexpr int kStages = 1;
};

template <int kDim, int kKeys, int kGroups, int kOptions>
struct alignas(1024) ForwardShared {
  static constexpr int kRows = 64 * kGroups, kStages = 2;
  static constexpr bool kHasPairs = (kOptions & (kBias | kMask)) != 0;
  using Pairs = PairTiles<kGroups, (kOptions & kBias) != 0, (kOptions & kMask) != 0>;
  alignas(1024) uint16_t q[kRows * kDim];
  alignas(1024) uint16_t k[kStages][kKeys * kDim];
  alignas(1024) uint16_t v[kStages][kKeys * kDim];
  Pairs pairs;
  uint64_t q_full, q_empty;
  uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  Tile tile;
};

/// A position in a ring of kStages buffers, as one number.
template <int kStages>
struct StageCount {
  uint32_t count = 0;
  __device__ __forceinline__ uint32_t stage() const { return count % kStages; }
  __device__ __forceinline__ uint32_t parity() const { return count / kStages & 1; }
  __device__ __forceinline__ void advance() { ++count; }
};

/// Blocks of kKeys keys [begin, end) that some of `rows` queries from `first` on see.
struct BlockRange {
  int begin, end;
};
template <int kKeys>
__device__ __forceinline__ BlockRange blocks_of(const Visibility& visible, int queries, int first, int rows) {
  if (first >= queries) return {0, 0};
  const int begin = visible.begin(first), end = visible.end(min(first + rows, queries) - 1);
  if (begin >= end) return {0, 0};
  return {begin / kKeys, (end + kKeys - 1) / kKeys};
}

template <class Shared, int kDim, int kKeys>
__device__ __forceinline__ void produce(const ForwardArguments& args, Shared& shared) {
  StageCount<Shared::kStages> k_at, v_at;
  uint32_t q_parity = 0;
  const auto load = [&](void* to, const CUtensorMap& map, uint64_t* full, int bytes, int row, int head, int batch) {
    barrier_expect(full, bytes);
    copy_tile(to, map, full, row, head, batch);
  };
  constexpr int kBytes = kKeys * kDim * 2;
  while (true) {
    const int index = static_cast<int>(atomicAdd(&tile_counter[0], 1));
    if (index >= args.tiles) break;
    const Tile tile = tile_of(args, index, Shared::kRows);
    if (tile.first_query >= tile.queries) continue;
    const int kv_head = tile.head / args.head_group;
    const BlockRange blocks = blocks_of<kKeys>(tile.visibility(args), tile.queries, tile.first_query, Shared::kRows);
    const auto load_k = [&](int block) {
      barrier_wait(&shared.k_empty[k_at.stage()], k_at.parity() ^ 1);
      load(shared.k[k_at.stage()], args.k, &shared.k_full[k_at.stage()], kBytes, tile.k_begin + block * kKeys, kv_head,
           tile.batch);
      k_at.advance();
    };
    const auto load_v = [&](int block) {
      barrier_wait(&shared.v_empty[v_at.stage()], v_at.parity() ^ 1);
      load(shared.v[v_at.stage()], args.v, &shared.v_full[v_at.stage()], kBytes, tile.k_begin + block * kKeys, kv_head,
           tile.batch);
      v_at.advance();
    };
    if (blocks.begin < blocks.end) load_k(blocks.end - 1);
    barrier_wait(&shared.q_empty, q_parity ^ 1);
    shared.tile = tile;
    load(shared.q, args.q, &shared.q_full, Shared::kRows * kDim * 2, tile.q_begin + tile.first_query, tile.head,
         tile.batch);
    q_parity ^= 1;
    for (int block = blocks.end - 1; block > blocks.begin; --block) {
      load_k(block - 1);
      load_v(block);
    }
    if (blocks.begin < blocks.end) load_v(blocks.begin);
  }
  barrier_wait(&shared.q_empty, q_parity ^ 1);
  shared.tile.batch = -1;
  barrier_arrive(&shared.q_full);
  __threadfence();
  if (atomicAdd(&tile_counter[1], 1) == gridDim.x - 1) tile_counter[0] = tile_counter[1] = 0;
}

/// A warp that copies the bias and the mask of the 64 queries of a warpgroup.
template <class Shared>
__device__ __forceinline__ void produce_pairs(const ForwardArguments& args, Shared& shared, int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const PairSource &bias = args.score.bias, &mask = args.score.mask;
  uint32_t q_parity = 0;
  StageCount<Shared::Pairs::kStages> at;
  while (true) {
    barrier_wait(&shared.q_full, q_parity);
    q_parity ^= 1;
    const Tile tile = read_tile(shared.tile, lane);
    if (lane == 0) barrier_arrive(&shared.q_empty);
    if (tile.batch < 0) break;
    const int first = tile.first_query + 64 * group;
    const BlockRange blocks = blocks_of<kPairKeys>(tile.visibility(args), tile.queries, first, 64);
#pragma unroll 1
    for (int block = blocks.end - 1; block >= blocks.begin; --block, at.advance()) {
      const uint32_t stage = at.stage();
      uint64_t* full = &shared.pairs.full[stage][group];
      barrier_wait(&shared.pairs.empty[stage][group], at.parity() ^ 1);
      const int key = block * kPairKeys;
      // False if the copy was made by ordinary stores.
      const auto copy = [&](auto element, const PairSource& source, bool has_map, const CUtensorMap& map, char* to) {
        using Element = decltype(element);
        constexpr int kPart = 64 * kPairPitch, kPartKeys = kPairPitch / static_cast<int>(sizeof(Element));
        if (source.data == nullptr) return true;
        if (!has_map)
          return copy_pairs<Element, 64>(source, tile.batch, tile.head, tile.q_begin + first, tile.k_begin + key,
                                         tile.queries - first, tile.keys - key, to);
        if (lane == 0) {
          barrier_expect_more(full, 64 * kPairKeys * sizeof(Element));
          for (int part = 0; part * kPartKeys < kPairKeys; ++part) {
            copy_pair_box(to + part * kPart, map, full, tile.k_begin + key + part * kPartKeys, tile.q_begin + first,
                          source.head != 0 ? tile.head : 0, source.batch != 0 ? tile.batch : 0);
          }
        }
        return true;
      };
      const bool bias_is_async = copy(uint16_t{}, bias, args.has_bias_map, args.bias, shared.pairs.bias(stage, group));
      const bool mask_is_async = copy(uint8_t{}, mask, args.has_mask_map, args.mask, shared.pairs.mask(stage, group));
      arrive_after_copies(full, bias_is_async && mask_is_async);
    }
  }
}

}  // namespace
}  // namespace attend::cuda
