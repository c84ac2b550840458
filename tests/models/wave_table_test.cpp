// Sinusoidal positions: the values of the whole table, computed only as far as needed.
#include "attend/models/wave_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "attend/models/gpt.h"
#include "attend/models/registry.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

TEST(WaveTable, RowsAreThoseOfTheWholeTable) {
  const WaveTable waves(6), halves(6, true);
  const Tensor whole = sinusoidal_positions(300, 6);
  for (const int64_t count : {1, 65, 300, 7}) {
    const Tensor rows = slice(waves.rows(count), 0, 0, count);
    EXPECT_EQ(rows.to_vector(), slice(whole, 0, 0, count).to_vector()) << count;
    const auto all = rows.to_vector(), sorted = slice(halves.rows(count), 0, 0, count).to_vector();
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t row = i / 6 * 6, column = i % 6;
      EXPECT_EQ(all[i], sorted[row + (column % 2 == 0 ? column / 2 : 3 + column / 2)]) << count;
    }
  }
}

TEST(WaveTable, GrowsFromManyThreads) {
  const WaveTable waves(4);
  std::vector<std::thread> threads;
  for (int64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&waves, i] {
      for (int64_t count = i; count < 400; count += 7) EXPECT_GE(waves.rows(count).dim(0), count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(waves.rows(1).dim(0), 2000);
}

TEST(WaveTable, FixedRowsDoNotGrow) {
  const WaveTable fixed(sinusoidal_positions(3, 4));
  EXPECT_EQ(fixed.rows(3).dim(0), 3);
  expect_error<ShapeError>([&] { fixed.rows(4); }, "positions: expected at most 3 tokens, got 4");
  EXPECT_FALSE(WaveTable());
}

/// A full table would take gigabytes.
TEST(WaveTable, AContextOfMillionsCostsNothing) {
  const TemporaryFolder folder;
  Rng rng(1);
  for (const char* architecture : {"gpt", "encoder", "transformer"}) {
    std::map<std::string, std::string> settings{
        {"vocab_size", "11"}, {"dim", "64"}, {"heads", "2"}, {"positions", "sinusoidal"}, {"context", "16777216"}};
    if (std::string(architecture) == "encoder") settings["labels"] = R"(["a", "b"])";
    const auto made = create_model(with_settings(preset_config(architecture, "tiny"), settings), rng);
    save_model(*made, folder.file(architecture));
    EXPECT_EQ(load_model(folder.file(architecture))->context(), 16777216);
  }
  const auto model = load_model(folder.file("gpt"));
  const auto& gpt = dynamic_cast<const Gpt&>(*model);
  gpt.hidden(tensor<int64_t>(std::vector<int64_t>(100, 3), {1, 100}));
  EXPECT_LT(gpt.waves.rows(1).dim(0), 1000);
}

}  // namespace
}  // namespace attend
