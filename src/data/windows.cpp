#include "attend/data/windows.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"
#include "data/shuffle.h"

namespace attend {
namespace {

constexpr int64_t kNoLabel = -100;

/// Splits each row of context + 1 tokens into ids and labels. Shorter rows are filled with kNoLabel.
TextBatch make_batch(std::span<const int64_t> tokens, int64_t rows, int64_t context) {
  TextBatch batch{.ids = empty({rows, context}, {DType::i64, kCpu}),
                  .labels = empty({rows, context}, {DType::i64, kCpu})};
  const auto ids = batch.ids.data<int64_t>(), labels = batch.labels.data<int64_t>();
  const auto width = static_cast<size_t>(context);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const auto from = tokens.subspan(row * (width + 1), width + 1);
    // Positions after the end of the text have no label: their id does not matter, but it must be valid.
    std::ranges::transform(from.first(width), ids.begin() + static_cast<std::ptrdiff_t>(row * width),
                           [](int64_t id) { return id == kNoLabel ? 0 : id; });
    std::ranges::copy(from.last(width), labels.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  batch.tokens = static_cast<int64_t>(labels.size()) - std::ranges::count(labels, kNoLabel);
  return batch;
}

}  // namespace

TextWindows::TextWindows(TokenCache cache, const WindowOptions& options) : cache_(std::move(cache)), options_(options) {
  require<ShapeError>(options.batch >= 1 && options.context >= 1, "windows: expected batch ≥ 1 and context ≥ 1, got ",
                      options.batch, " and ", options.context);
  require<ShapeError>(options.from >= 0 && options.from < options.to && options.to <= 1,
                      "windows: expected 0 ≤ from < to ≤ 1, got ", options.from, " and ", options.to);
  starts_.reserve(static_cast<size_t>(cache_.size()) + 1);
  starts_.push_back(0);
  for (int64_t example = 0; example < cache_.size(); ++example) {
    starts_.push_back(starts_.back() + cache_.length(example) + std::ssize(options.separator));
  }
  const auto total = static_cast<double>(starts_.back());
  begin_ = static_cast<int64_t>(total * options.from);
  end_ = static_cast<int64_t>(total * options.to);
  require<ShapeError>(tokens() >= 2, "windows: expected at least 2 tokens of text, got ", tokens());
}

void TextWindows::read(int64_t position, std::span<int64_t> tokens) const {
  const auto after = std::ranges::upper_bound(starts_, position);
  for (auto example = after - starts_.begin() - 1; !tokens.empty(); ++example) {
    auto within = static_cast<size_t>(position - starts_[static_cast<size_t>(example)]);
    for (const std::span<const int32_t> ids : {cache_.sequence(example), std::span(options_.separator)}) {
      const size_t skipped = std::min(within, ids.size()), count = std::min(ids.size() - skipped, tokens.size());
      std::ranges::copy(ids.subspan(skipped, count), tokens.begin());
      tokens = tokens.subspan(count);
      within -= skipped;
    }
    position = starts_[static_cast<size_t>(example) + 1];
  }
}

TextBatch TextWindows::window(int64_t step) const {
  require<ShapeError>(tokens() > options_.context, "windows: expected more tokens than the context of ",
                      options_.context, ", got ", tokens());
  const RandomSource random{options_.seed, DataStream::windows, static_cast<uint64_t>(step)};
  const auto width = static_cast<size_t>(options_.context) + 1, rows = static_cast<size_t>(options_.batch);
  std::vector<int64_t> cells(rows * width);
  for (size_t row = 0; row < rows; ++row) {
    const auto offset = random.below(static_cast<uint64_t>(tokens() - options_.context), row);
    read(begin_ + static_cast<int64_t>(offset), std::span(cells).subspan(row * width, width));
  }
  return make_batch(cells, options_.batch, options_.context);
}

int64_t TextWindows::rows() const { return (tokens() - 1 + options_.context - 1) / options_.context; }

int64_t TextWindows::blocks() const { return (rows() + options_.batch - 1) / options_.batch; }

TextBatch TextWindows::block(int64_t index) const {
  require<ShapeError>(index >= 0 && index < blocks(), "windows: expected a block from 0 to ", blocks() - 1, ", got ",
                      index);
  const int64_t first = index * options_.batch, count = std::min(options_.batch, rows() - first);
  const auto width = static_cast<size_t>(options_.context) + 1;
  std::vector<int64_t> cells(static_cast<size_t>(count) * width, kNoLabel);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t position = begin_ + (first + row) * options_.context;
    const auto available = static_cast<size_t>(std::min(options_.context + 1, end_ - position));
    read(position, std::span(cells).subspan(static_cast<size_t>(row) * width, available));
  }
  return make_batch(cells, count, options_.context);
}

}  // namespace attend
