#pragma once

#include <memory>
#include <optional>
#include <span>

#include "attend/models/model.h"
#include "models/device_steps.h"
#include "nn/paged_step.h"

namespace attend {

/// The next tokens of a row.
struct RowReading {
  int64_t row = 0;
  std::span<const int32_t> ids;
  bool needs_logits = true;
  /// On the CPU: the number of last `ids` that are guesses. They count as read only once accept() is called. If the
  /// reading needs logits, it gets those after each guess and after the token before them.
  int64_t drafted = 0;
};

/// A new row: the input of the encoder, if the model has one, and the tokens that the decoder reads first.
struct NewRow {
  std::span<const int32_t> source, prompt;
};

/// The state of a generation with keys and values in pages. Rows are independent of each other: each reads
/// any number of tokens in a step, and adding or removing a row moves no memory of other rows. No gradients are
/// recorded.
class PagedDecoding {
 public:
  virtual ~PagedDecoding() = default;

  /// Appends rows. A language model takes over the pages of a known beginning of the prompt: held() is then not 0.
  virtual void add_rows(std::span<const NewRow> rows) = 0;
  int64_t rows() const { return std::ssize(rows_); }
  int64_t held(int64_t row) const { return rows_[static_cast<size_t>(row)].own.held(); }
  /// Reads tokens. Returns the logits after the last token of each reading that needs them, [readings, vocab_size], or
  /// more with guesses.
  /// Rows of one source must be adjacent. `traced` are ranges of readings whose attention is recorded.
  Tensor step(std::span<const RowReading> readings, std::vector<TracedRows>& traced);
  /// On the CPU: reads tokens like step(). Returns the input of the model's head for each of them, [tokens, dim].
  Tensor hidden(std::span<const RowReading> readings);
  /// Accepts the first guesses of a row, `ids`, and forgets the others. Must follow each step in which the row had
  /// guesses.
  void accept(int64_t row, std::span<const int32_t> ids);
  /// Replaces row i by the former row order[i]; rows may be repeated, moved and dropped.
  void select(std::span<const int64_t> order);

  /// Maximum number of pages for `rows` hypotheses that share a prompt and each add up to `limit` tokens.
  static int64_t pages_for(const NewRow& row, int64_t rows, int64_t limit);

 protected:
  explicit PagedDecoding(std::shared_ptr<PagePool> pool) : pool_(std::move(pool)) {}

  struct Row {
    PageTable own;
    std::shared_ptr<const PageTable> memory{};  // of the source
  };
  // On the CPU:
  /// The vector of each token after the last layer, without the final norm: [1, tokens, dim].
  virtual Tensor forward(const Tensor& ids, PagedStep& step) = 0;
  virtual Tensor head_input(const Tensor& x) const = 0;
  virtual Tensor logits(const Tensor& x) const = 0;
  // On a GPU:
  /// See DeviceSteps::Forward.
  virtual Tensor device_logits(DevicePagedStep& step, const Tensor& last, const Tensor& target) = 0;
  /// The bias of a step, if the model has one: [tokens, heads, 1, positions of a table].
  virtual Tensor device_bias(const PagedStep& /*step*/) { return {}; }

  virtual int64_t context() const = 0;
  virtual int64_t words() const = 0;

  std::shared_ptr<PagePool> pool_;
  std::vector<Row> rows_;

 private:
  friend std::unique_ptr<PagedDecoding> start_paged(const Model&, std::shared_ptr<PagePool>, std::optional<DType>);
  DescribedStep describe(std::span<const RowReading> readings);
  void note_written(std::span<const RowReading> readings);
  std::unique_ptr<DeviceSteps> device_steps_;  // null on the CPU
};

/// Whether a generation with this model keeps keys and values. Recurrent models and encoders have none.
bool has_keys_and_values(const Model& model);

/// Starts a generation without rows; null if the model has no such decoding. Sets the layout of the pool. `cache_type`:
/// of keys and values, f32 or bf16; by default bf16 where products round to bf16, too.
std::unique_ptr<PagedDecoding> start_paged(const Model& model, std::shared_ptr<PagePool> pool,
                                           std::optional<DType> cache_type = {});

}  // namespace attend
