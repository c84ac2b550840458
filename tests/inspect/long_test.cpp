// Long texts: memory is linear in the length. Times are printed, not asserted; the browser test checks the page's
// limits.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "attend/inspect/arrays.h"
#include "attend/inspect/heads.h"
#include "inspect/inspect_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Measured {
  double run_seconds = 0, tile_seconds = 0, fine_seconds = 0;
  int64_t peak = 0, kept = 0;  // bytes
};

Measured measure(const InspectedModel& model, int64_t length) {
  std::string text;
  for (int64_t i = 0; i < length; ++i) text += static_cast<char>('a' + (i * 7 + i / 11) % 26);
  const auto before = static_cast<int64_t>(memory_stats().live_bytes);
  reset_peak_memory();
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  Measured result;
  auto start = Clock::now();
  const attend::Run run = capture(*model.model, *model.tokenizer, {.text = text});
  result.run_seconds = since(start);
  result.kept = static_cast<int64_t>(memory_stats().live_bytes) - before;
  int64_t level = 0;
  while (((length - 1) >> level) + 1 > 256) ++level;
  start = Clock::now();
  const Array whole = run_array(run, "tile/0/0/" + std::to_string(level) + "/0/0");
  result.tile_seconds = since(start);
  start = Clock::now();
  run_array(run, "tile/0/0/0/" + std::to_string((length - 1) / 256) + "/0");
  result.fine_seconds = since(start);
  result.peak = static_cast<int64_t>(memory_stats().peak_bytes) - before;
  EXPECT_EQ(whole.shape, (Shape{256, 256}));
  EXPECT_EQ(head_summary(run, 0, 0)->row_totals.size(), static_cast<size_t>(length));
  EXPECT_NEAR(head_summary(run, 0, 0)->row_totals.back(), 1, 1e-4);
  EXPECT_LT(std::abs(run.bytes() - result.kept), result.kept);
  return result;
}

TEST(LongTexts, MemoryGrowsWithTheLengthNotItsSquare) {
  const InspectedModel model = tiny_inspected(
      "gpt", {{"context", "16384"}, {"layers", "2"}, {"dim", "64"}, {"heads", "4"}, {"positions", "sinusoidal"}});
  const Measured quarter = measure(model, 4096), whole = measure(model, 16384);
  for (const auto& [length, m] : {std::pair{4096, quarter}, std::pair{16384, whole}}) {
    std::printf("%5d tokens: pass %.2f s, overview of a head %.2f s, a tile %.3f s, %.1f MiB kept, %.1f MiB at most\n",
                length, m.run_seconds, m.tile_seconds, m.fine_seconds, static_cast<double>(m.kept) / 0x1p20,
                static_cast<double>(m.peak) / 0x1p20);
  }
  EXPECT_LT(whole.kept, 5 * quarter.kept);
  EXPECT_LT(whole.peak, 5 * quarter.peak + (int64_t{32} << 20));
  EXPECT_LT(whole.peak, int64_t{16384} * 16384);  // less than one byte per pair
}

TEST(LongTexts, AnAlignmentHasALimit) {
  const InspectedModel model = tiny_inspected("transformer", {{"context", "4096"}, {"positions", "sinusoidal"}});
  const attend::Run run = tiny_run(model, {.text = std::string(2100, 'a'), .target = std::string(2100, 'b')});
  EXPECT_FALSE(has_alignment(run));
  expect_error<ShapeError>([&] { alignment_of(run, *model.tokenizer); },
                           "align: at most 4194304 pairs of tokens, got 2101 × 2101");
  const attend::Run uneven = tiny_run(model, {.text = std::string(3000, 'a'), .target = "b"});
  EXPECT_TRUE(has_alignment(uneven));
  EXPECT_EQ(alignment_of(uneven, *model.tokenizer).target.size(), 1u);
  EXPECT_FALSE(has_alignment(tiny_run(tiny_inspected("gpt"), {.text = "abc"})));
}

TEST(LongTexts, AFirstViewOf512TokensIsQuick) {
  const InspectedModel model =
      tiny_inspected("gpt", {{"context", "512"}, {"layers", "6"}, {"dim", "128"}, {"heads", "8"}});
  const auto start = Clock::now();
  const attend::Run run = tiny_run(model, {.text = std::string(512, 'a')});
  const size_t heads = head_figures(run).size();
  for (size_t a = 0; a < run.attention.size(); ++a) run_array(run, "thumbnails/64/" + std::to_string(a));
  run_array(run, "weights/5/0");
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("512 tokens, %zu heads: pass, figures, thumbnails and one head in %.3f s\n", heads, seconds);
  EXPECT_LT(seconds, 10);
}

}  // namespace
}  // namespace attend::testing
