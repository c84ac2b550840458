#include "text/tokenizers/text_work.h"

#include "attend/base/error.h"

namespace attend::text {
namespace {

// Real files have at most a dozen steps, and no step makes a text more than four times as long.
constexpr int64_t kMostGrowth = 64, kGrowthSlack = 65'536;
constexpr int64_t kMostWritten = 256, kWrittenSlack = 1 << 20;

constexpr int64_t kTickSteps = 10'000;  // ICU calls back once for this many steps
// ICU does not report the steps of a search that ends before its first tick. Each search is charged a fraction of a
// tick, so that thousands of short pieces cost as much as one long piece.
constexpr int64_t kSearchSteps = kTickSteps / 32;
constexpr int64_t kStepsPerByte = kTickSteps / 8, kStepsSlack = 1000 * kTickSteps;

}  // namespace

TextWork::TextWork(size_t text_bytes)
    : text_bytes_(static_cast<int64_t>(text_bytes)),
      bytes_left_(kMostWritten * text_bytes_ + kWrittenSlack),
      steps_left_(kStepsPerByte * text_bytes_ + kStepsSlack) {}

void TextWork::wrote(const char* part, size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  require<FormatError>(count <= kMostGrowth * text_bytes_ + kGrowthSlack, "tokenizer: its ", part,
                       " expands a text of ", text_bytes_, " bytes to ", bytes, "; its rules are damaged or hostile");
  bytes_left_ -= count;
  require<FormatError>(bytes_left_ >= 0, "tokenizer: its ", part, " writes more than ",
                       kMostWritten * text_bytes_ + kWrittenSlack, " bytes for a text of ", text_bytes_, " bytes");
}

bool TextWork::start_search() { return (steps_left_ -= kSearchSteps) > 0; }
bool TextWork::spend_tick() { return (steps_left_ -= kTickSteps) > 0; }

}  // namespace attend::text
