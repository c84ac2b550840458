#include "generate/reread.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/nn/cache.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"

namespace attend {
namespace {

/// The token ids of each row so far.
class Prefixes {
 public:
  void append(const Tensor& ids, const Tensor& lengths) {
    const auto values = ids.to_vector<int64_t>();
    const auto real = lengths ? lengths.to_vector<int64_t>() : std::vector<int64_t>{};
    rows_.resize(static_cast<size_t>(ids.dim(0)));
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(r) * ids.dim(1);
      const int64_t count = real.empty() ? ids.dim(1) : real[r];
      for (int64_t i = 0; i < count; ++i) rows_[r].push_back(static_cast<int32_t>(begin[i]));
    }
  }
  void select(std::span<const int64_t> order) {
    if (rows_.empty()) return;  // before the first append()
    std::vector<std::vector<int32_t>> rows;
    for (const int64_t row : order) rows.push_back(rows_[static_cast<size_t>(row)]);
    rows_ = std::move(rows);
  }
  void join(const Prefixes& other) { rows_.insert(rows_.end(), other.rows_.begin(), other.rows_.end()); }
  int64_t count() const { return std::ssize(rows_); }
  IdRows padded() const { return pad_rows(rows_); }
  /// The head's logits after each row's last token: [rows, vocab_size].
  Tensor last_logits(const Head& head, const Tensor& hidden) const {
    std::vector<int64_t> places;
    for (size_t r = 0; r < rows_.size(); ++r) {
      places.push_back(static_cast<int64_t>(r) * hidden.dim(1) + std::ssize(rows_[r]) - 1);
    }
    return head.logits(select_rows(reshape(hidden, {-1, hidden.dim(2)}), places));
  }

 private:
  std::vector<std::vector<int32_t>> rows_;
};

class PairRereading final : public Decoding {
 public:
  PairRereading(const PairModel& model, const Tensor& source, const Tensor& lengths)
      : model_(model), source_(source), lengths_(lengths) {}

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardPass& pass) override {
    const NoGrad scope;
    prefixes_.append(ids, lengths);
    const Tensor target = prefixes_.padded().ids;
    return prefixes_.last_logits(
        model_.head(), model_.hidden({.source = source_, .source_lengths = lengths_, .target = target}, pass));
  }

  void select(std::span<const int64_t> order) override {
    prefixes_.select(order);
    source_ = select_rows(source_, order);
    if (lengths_) lengths_ = select_rows(lengths_, order);
  }

  void spread(int64_t rows) override { select(repeated_rows(source_.dim(0), rows)); }

  void join(Decoding& other) override {
    auto& rows = dynamic_cast<PairRereading&>(other);
    lengths_ = join_rows(real_lengths(), rows.real_lengths());
    source_ = join_rows(source_, rows.source_, 1);
    prefixes_.join(rows.prefixes_);
  }

 private:
  Tensor real_lengths() const {
    return lengths_ ? lengths_ : full({source_.dim(0)}, static_cast<double>(source_.dim(1)), {DType::i64, kCpu});
  }

  const PairModel& model_;
  Tensor source_, lengths_;
  Prefixes prefixes_;
};

class TextRereading final : public Decoding {
 public:
  explicit TextRereading(const LanguageModel& model) : model_(model) {}

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardPass& pass) override {
    const NoGrad scope;
    prefixes_.append(ids, lengths);
    return prefixes_.last_logits(model_.head(), model_.hidden(prefixes_.padded().ids, pass));
  }
  void select(std::span<const int64_t> order) override { prefixes_.select(order); }
  void spread(int64_t rows) override { select(repeated_rows(prefixes_.count(), rows)); }
  void join(Decoding& other) override { prefixes_.join(dynamic_cast<TextRereading&>(other).prefixes_); }

 private:
  const LanguageModel& model_;
  Prefixes prefixes_;
};

}  // namespace

std::unique_ptr<Decoding> start_rereading(const PairModel& model, const Tensor& source, const Tensor& source_lengths) {
  return std::make_unique<PairRereading>(model, source, source_lengths);
}

std::unique_ptr<Decoding> start_rereading(const LanguageModel& model) { return std::make_unique<TextRereading>(model); }

}  // namespace attend
