#include "attend/inspect/lens.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/numbers.h"
#include "generate/top.h"

namespace attend {
namespace {

constexpr int64_t kMostPlaces = 512, kMostTop = 50;

class LensWork {
 public:
  LensWork(const Experiment& experiment, const LensOptions& options)
      : experiment_(experiment), options_(options), stack_(experiment.residual_stack("the lens")) {
    require<ShapeError>(options.top >= 1 && options.top <= kMostTop, "lens: top must be 1 to ", kMostTop, ", got ",
                        options.top);
    require<ShapeError>(options.places >= 1 && options.places <= kMostPlaces, "lens: places must be 1 to ", kMostPlaces,
                        ", got ", options.places);
    if (const auto* encoder = dynamic_cast<const EncoderModel*>(experiment.model().model.get());
        encoder && experiment.has_labels()) {
      scores_ = encoder->label_scores();
    }
    require<ShapeError>(scores_ != LabelScores::values, "lens: the scores of this model are not probabilities");
    const int64_t tokens = std::ssize(side().tokens);
    require<ShapeError>(options.first >= 0 && options.first < std::max<int64_t>(tokens, 1), "lens: there is no place ",
                        options.first, "; the ", side().name, " has ", tokens, ", counted from 0");
    range_ = {options.first, std::min(tokens, options.first + options.places)};
  }

  Lens read() {
    const NoGrad scope;
    ActivationRecorder seen;
    const Tensor output = experiment_.logits(&seen, experiment_.has_labels() ? RowRange{0, 1} : range_);
    start(output);
    for (int64_t row = 0; row <= stack_.layers; ++row) {
      if (options_.on_step) options_.on_step(row, stack_.layers + 1);
      lens_.points.push_back(row == 0 ? stack_.embedded : stack_.output(row - 1));
      add_row(seen.at(lens_.points.back()));
    }
    return std::move(lens_);
  }

 private:
  const RunSide& side() const { return experiment_.sides()[static_cast<size_t>(stack_.side)]; }

  /// The columns, with their reference classes.
  void start(const Tensor& output) {
    lens_.side = stack_.side;
    const auto best = [&](int64_t row) {
      std::vector<Continuation> top;
      top_values(to(to(select(output, 0, row), DType::f32), kCpu).to_vector<float>(), 1, top);
      return top.empty() ? 0 : top[0].id;
    };
    if (experiment_.has_labels()) add_place(-1, best(0), false);
    for (int64_t i = range_.begin; i < range_.end; ++i) {
      const int64_t known = experiment_.true_class(i);
      const int64_t own = experiment_.has_labels() ? best(0) : known >= 0 ? known : best(i - range_.begin);
      add_place(i, own, known >= 0);
    }
  }
  void add_place(int64_t index, int64_t reference, bool is_true) {
    LensPlace place{.index = index,
                    .token = index < 0 ? ShownToken{} : side().tokens[static_cast<size_t>(index)],
                    .reference = experiment_.class_token(reference),
                    .is_true = is_true,
                    .cells = {}};
    lens_.places.push_back(std::move(place));
  }

  /// Runs the model with `residual` [1, tokens, dim] as the output of its last layer; no layer is computed. What
  /// follows the last layer (norm, pooling, output layer) is the model's own code.
  void add_row(const Tensor& residual) {
    if (!experiment_.has_labels()) return add_cells(after_last(residual, range_), 0);
    add_cells(after_last(residual, {0, 1}), 0);
    const Tensor tokens = slice(residual, 1, range_.begin, range_.end);
    // As many inputs of one token each.
    add_cells(after_last(reshape(contiguous(tokens), {tokens.dim(1), 1, tokens.dim(2)}), {0, 1}), 1);
  }

  Tensor after_last(const Tensor& residual, RowRange rows) const {
    ActivationChanger changer;
    for (const StackPlace& stack : experiment_.stacks()) {
      for (int64_t i = 0; i < stack.layers; ++i) changer.known[stack.layer(i)] = residual;
    }
    return experiment_.logits(&changer, rows);
  }

  void add_cells(const Tensor& logits, size_t first) {
    const Tensor numbers = to(logits, DType::f32);
    std::vector<float> values = (scores_ == LabelScores::each ? numbers : log_softmax(numbers)).to_vector<float>();
    if (scores_ == LabelScores::each) {  // log σ(x)
      for (float& value : values) value = std::min(value, 0.0f) - std::log1p(std::exp(-std::abs(value)));
    }
    const auto classes = static_cast<size_t>(numbers.dim(1));
    for (int64_t row = 0; row < numbers.dim(0); ++row) {
      const auto own = std::span<const float>(values).subspan(static_cast<size_t>(row) * classes, classes);
      require_number(own[0], "lens");
      LensPlace& place = lens_.places[first + static_cast<size_t>(row)];
      place.cells.push_back(cell_of(own, static_cast<size_t>(place.reference.id)));
    }
  }

  LensCell cell_of(std::span<const float> logs, size_t reference) {
    LensCell cell;
    std::vector<Continuation> best;
    top_values(logs, options_.top, best);
    for (const Continuation& one : best) {
      const auto [entry, is_new] = shown_.try_emplace(one.id);
      if (is_new) entry->second = experiment_.class_token(one.id);
      cell.top.push_back({entry->second, std::exp(static_cast<double>(one.value))});
    }
    cell.probability = std::exp(static_cast<double>(logs[reference]));
    for (const float value : logs) {
      cell.rank += value > logs[reference];
      const auto log = static_cast<double>(value);
      if (std::isfinite(log)) cell.entropy -= std::exp(log) * log;
      if (const double rest = -std::expm1(log); scores_ == LabelScores::each && rest > 0) {
        cell.entropy -= rest * std::log(rest);  // each label is a choice of its own
      }
    }
    return cell;
  }

  const Experiment& experiment_;
  const LensOptions& options_;
  const StackPlace& stack_;
  RowRange range_;
  LabelScores scores_ = LabelScores::shares;
  Lens lens_;
  std::map<int32_t, ShownToken> shown_;
};

}  // namespace

Lens lens(const Experiment& experiment, const LensOptions& options) { return LensWork(experiment, options).read(); }

}  // namespace attend
