#include "backend/cuda/attention/hopper_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

// The schedule of attention's backward pass on Hopper, simulated on the CPU.
namespace attend::cuda {
namespace {

struct Sizes {
  int queries = 0, keys = 0;
  bool causal = false, bottom_right = false;
  int window = 0, heads = 1, key_heads = 1, ctas = 132;
};

ScheduleOptions options_of(const Sizes& s) {
  return {{s.queries, s.keys, s.causal, s.bottom_right, s.window}, s.heads, s.key_heads, s.ctas};
}
std::string text(const Sizes& s) {
  return std::to_string(s.queries) + " × " + std::to_string(s.keys) + (s.causal ? " causal" : "") +
         (s.bottom_right ? " bottom-right" : "") + " window " + std::to_string(s.window) + ", " +
         std::to_string(s.heads) + " × " + std::to_string(s.key_heads) + " heads, " + std::to_string(s.ctas) + " CTAs";
}

std::vector<Sizes> all_sizes() {
  std::vector<Sizes> list;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {64, 128}, {130, 700}, {700, 130}, {1000, 1000}, {2048, 2048}}) {
    for (int window : {0, 1, 100, 513}) {
      for (const auto& [causal, right] : {std::pair{false, false}, {true, false}, {true, true}}) {
        list.push_back({queries, keys, causal, right, window, 1, 3, 4});
        list.push_back({queries, keys, causal, right, window, 3, 2, 7});
        list.push_back({queries, keys, causal, right, window, 2, 16, 132});
      }
    }
  }
  return list;
}

/// A block of keys and a query block of one head, in the order in which a CTA computes them.
struct Part {
  int head, query_block, rank;
};

template <int kQueries>
std::vector<Part> parts_of(const Schedule<kQueries, 128>& schedule, const Ticket& ticket, int lanes) {
  std::vector<Part> parts;
  for (int block : {schedule.partner(ticket.item), ticket.item}) {
    if (block < 0) continue;
    const Walk walk = schedule.walk(block);
    for (int head = 0; head < schedule.options.heads; ++head) {
      const bool last = head + 1 == schedule.options.heads;
      int at = last ? walk.last_start : walk.start;
      for (int step = 0; step < walk.count(); ++step, at = walk.next(at)) {
        int rank = 0;
        for (int lane = 0; lane < lanes; ++lane) rank += schedule.rank_part(block, last, at, lane, lanes);
        parts.push_back({head, at, rank});
      }
    }
  }
  return parts;
}

/// Every block of keys meets every query block that sees it once, and the parts of a query block have ranks 0, 1, ….
template <int kQueries>
void expect_complete(const Sizes& sizes) {
  const ScheduleOptions options = options_of(sizes);
  const Schedule<kQueries, 128> schedule(options, sizes.queries, sizes.keys);
  std::map<std::pair<int, int>, int> taken;
  std::map<std::tuple<int, int, int>, std::vector<int>> ranks;
  std::map<int, int> items_of_wave;
  for (int n = 0; n < schedule.tickets(); ++n) {
    const Ticket ticket = schedule.ticket(n);
    ASSERT_GT(ticket.wave_end, n);
    if (ticket.item < 0) continue;
    ASSERT_LE(++items_of_wave[ticket.wave_end], sizes.ctas);
    ++taken[{ticket.key_head, ticket.item}];
    for (const Part& part : parts_of(schedule, ticket, 32))
      ranks[{ticket.key_head, part.head, part.query_block}].push_back(part.rank);
  }
  EXPECT_EQ(taken.size(), static_cast<size_t>(schedule.items * sizes.key_heads));
  for (const auto& [item, times] : taken) EXPECT_EQ(times, 1);
  for (int block = 0; block < schedule.query_blocks(); ++block) {
    const int first = block * kQueries, last = std::min(first + kQueries, sizes.queries) - 1;
    int seen = 0;
    for (int b = 0; b < schedule.blocks; ++b) {
      bool sees = false, clear = true;
      for (int i = first; i <= last; ++i) {
        const int begin = std::max(schedule.visible.begin(i), b * 128);
        const int end = std::min(schedule.visible.end(i), (b + 1) * 128);
        sees = sees || begin < end;
        clear = clear && end - begin == 128;
      }
      const Blocks range = schedule.clear_range(b, false);
      EXPECT_EQ(block >= range.begin && block < range.end, clear) << b << " " << block;
      EXPECT_GE(schedule.walk(b).contains(block), sees) << b << " " << block;
      seen += schedule.walk(b).contains(block);
    }
    for (int slice = 0; slice < sizes.key_heads * sizes.heads; ++slice) {
      std::vector<int>& got = ranks[{slice / sizes.heads, slice % sizes.heads, block}];
      std::sort(got.begin(), got.end());
      ASSERT_EQ(got.size(), static_cast<size_t>(seen));
      for (int n = 0; n < seen; ++n) ASSERT_EQ(got[static_cast<size_t>(n)], n) << "query block " << block;
    }
  }
}

TEST(HopperSchedule, EveryPartHasItsTurn) {
  for (const Sizes& sizes : all_sizes()) {
    SCOPED_TRACE(text(sizes));
    expect_complete<64>(sizes);
    expect_complete<128>(sizes);
  }
}

/// CTAs that run at random speeds and take tickets while earlier items wait for their turns, unless the wave of the
/// last item has tickets left.
template <int kQueries>
void expect_progress(const Sizes& sizes, unsigned seed) {
  const ScheduleOptions options = options_of(sizes);
  const Schedule<kQueries, 128> schedule(options, sizes.queries, sizes.keys);
  struct Item {
    int key_head, wave_end;
    std::deque<Part> left;
  };
  std::vector<std::deque<Item>> ctas(static_cast<size_t>(sizes.ctas));
  std::map<std::tuple<int, int, int>, int> turns;
  std::mt19937 random(seed);
  std::vector<size_t> order(ctas.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  int next = 0;
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t c : order) {
      std::deque<Item>& items = ctas[c];
      if (random() % 3 == 0) {
        moved = true;
        continue;
      }
      while (!items.empty() && items.front().left.empty()) items.pop_front();
      if (!items.empty() && !items.front().left.empty()) {
        const Part& part = items.front().left.front();
        int& turn = turns[{items.front().key_head, part.head, part.query_block}];
        if (turn == part.rank) {
          ++turn;
          items.front().left.pop_front();
          moved = true;
        }
      }
      if (next < schedule.tickets() && items.size() < 4) {
        const Ticket ticket = schedule.ticket(next);
        if (!items.empty() && next < items.back().wave_end) continue;
        ++next;
        moved = true;
        if (ticket.item < 0) continue;
        const auto parts = parts_of(schedule, ticket, 1);
        items.push_back({ticket.key_head, ticket.wave_end, {parts.begin(), parts.end()}});
      }
    }
    if (!moved && next == schedule.tickets()) break;
  }
  EXPECT_EQ(next, schedule.tickets());
  for (const auto& items : ctas) {
    for (const Item& item : items) EXPECT_TRUE(item.left.empty());
  }
}

TEST(HopperSchedule, NeverWaitsForItself) {
  unsigned seed = 0;
  for (const Sizes& sizes : all_sizes()) {
    if (sizes.key_heads == 16) continue;
    SCOPED_TRACE(text(sizes));
    expect_progress<64>(sizes, ++seed);
    expect_progress<128>(sizes, ++seed);
  }
}

/// The share of parts that come less than kSpacing steps after the part before them, or before it, if all items of a
/// wave start at once.
template <int kQueries>
double share_of_close_parts(const Sizes& sizes) {
  const ScheduleOptions options = options_of(sizes);
  const Schedule<kQueries, 128> schedule(options, sizes.queries, sizes.keys);
  std::map<std::tuple<int, int, int>, std::map<int, int>> times;  // by rank
  for (int n = 0; n < schedule.tickets(); ++n) {
    const Ticket ticket = schedule.ticket(n);
    if (ticket.item < 0 || ticket.key_head > 0) continue;
    int time = 0;
    for (const Part& part : parts_of(schedule, ticket, 1))
      times[{ticket.wave_end, part.head, part.query_block}][part.rank] = time++;
  }
  int close = 0, all = 0;
  for (auto& [place, list] : times) {
    for (auto a = list.begin(), b = std::next(a); b != list.end(); ++a, ++b, ++all)
      close += b->second - a->second < kSpacing;
  }
  return static_cast<double>(close) / all;
}

TEST(HopperSchedule, PartsOfALongSequenceAreSpaced) {
  for (int heads : {1, 4}) {
    for (bool causal : {false, true}) {
      const Sizes sizes{16384, 16384, causal, false, 0, heads, 16};
      EXPECT_LT(share_of_close_parts<64>(sizes), 0.001) << heads << causal;
      EXPECT_LT(share_of_close_parts<128>(sizes), 0.001) << heads << causal;
    }
  }
}

}  // namespace
}  // namespace attend::cuda
