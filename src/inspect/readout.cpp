#include "inspect/readout.h"

#include <cmath>
#include <numeric>

#include "attend/models/encoder.h"
#include "attend/models/transformer_model.h"
#include "attend/models/vision.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// The slope of the goal at the input of an output layer: wanted − contrast of the weight's rows.
Row class_slope(const Tensor& weight, const Goal& goal) {
  const auto row = [&](int64_t index) {
    return embedding(tensor<int64_t>({index}, {1}), weight.detach()).to_vector<double>();
  };
  Row result = row(goal.wanted);
  if (goal.contrast < 0) return result;
  const Row other = row(goal.contrast);
  for (size_t i = 0; i < result.size(); ++i) result[i] -= other[i];
  return result;
}

double class_bias(const Tensor& bias, const Goal& goal) {
  if (!bias) return 0;
  const auto values = bias.detach().to_vector<double>();
  return values[static_cast<size_t>(goal.wanted)] -
         (goal.contrast < 0 ? 0 : values[static_cast<size_t>(goal.contrast)]);
}

/// f(x) / x for each element; 0 where x is 0, because f(0) is 0 for every activation used here.
Row ratios(const Row& x, Activation kind) {
  std::vector<float> values(x.begin(), x.end());
  const Row y = activate(kind, from_span<float>(values, {std::ssize(values)}, kCpu)).to_vector<double>();
  Row result(x.size());
  for (size_t i = 0; i < x.size(); ++i) result[i] = values[i] == 0.0f ? 0 : y[i] / static_cast<double>(values[i]);
  return result;
}

Row row_at(const Tensor& value, int64_t place) { return select(select(value, 0, 0), 0, place).to_vector<double>(); }

class EncoderReadout {
 public:
  EncoderReadout(const Encoder& model, const ActivationRecorder& seen, const Goal& goal, std::vector<LogitPart>& parts)
      : model_(model), final_(seen.at("stack:final")), goal_(goal), parts_(parts) {}

  Form masked() {
    Row slope = class_slope(model_.masked_head().weight, goal_);
    add_bias("masked_bias", class_bias(model_.masked_bias, goal_));
    const Row x = row_at(final_, goal_.output);
    const Activation kind = model_.settings.masked_gelu ? Activation::gelu : model_.settings.activation;
    const Row inner = applied(*model_.masked_dense, x), scale = ratios(inner, kind);
    Row active(inner.size());
    for (size_t i = 0; i < inner.size(); ++i) active[i] = inner[i] * scale[i];
    add_bias("masked_norm", dot(slope, row_of(model_.masked_norm->bias, std::ssize(slope))));
    slope = before_norm(*model_.masked_norm, active, slope);
    return {{goal_.output}, {through(*model_.masked_dense, scale, slope, "masked_dense")}};
  }

  Form classified() {
    Row slope = class_slope(model_.classifier->weight, goal_);
    add_bias("classifier", class_bias(model_.classifier->bias, goal_));
    const int64_t count = final_.dim(1);
    const bool is_mean = model_.settings.pooling == Pooling::mean;
    if (model_.pooler) {
      const auto kind = model_.settings.pooler == Pooler::tanh ? Activation::tanh : Activation::relu;
      slope = through(*model_.pooler, ratios(applied(*model_.pooler, pooled(is_mean)), kind), slope, "pooler");
    }
    if (!is_mean) return {{0}, {slope}};
    for (double& value : slope) value /= static_cast<double>(count);
    Form form{std::vector<int64_t>(static_cast<size_t>(count)), std::vector<Row>(static_cast<size_t>(count), slope)};
    std::iota(form.places.begin(), form.places.end(), 0);
    return form;
  }

 private:
  void add_bias(const char* module, double value) {
    parts_.push_back({.kind = PartKind::bias, .module = module, .value = value});
  }
  Row pooled(bool is_mean) const {
    Row sum = row_at(final_, 0);
    if (!is_mean) return sum;
    for (int64_t i = 1; i < final_.dim(1); ++i) {
      const Row next = row_at(final_, i);
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += next[k];
    }
    for (double& value : sum) value /= static_cast<double>(final_.dim(1));
    return sum;
  }
  static Row applied(const Linear& layer, const Row& x) {
    const Matrix weight(layer.weight);
    Row y = row_of(layer.bias, weight.rows);
    for (int64_t i = 0; i < weight.rows; ++i) y[static_cast<size_t>(i)] += dot(weight.row(i), x);
    return y;
  }
  /// The slope before layer and activation, whose ratio is frozen.
  Row through(const Linear& layer, const Row& scale, Row slope, const char* module) {
    for (size_t i = 0; i < slope.size(); ++i) slope[i] *= scale[i];
    add_bias(module, dot(slope, row_of(layer.bias, std::ssize(slope))));
    return Matrix(layer.weight).times_left(slope);
  }

  const Encoder& model_;
  const Tensor& final_;
  const Goal& goal_;
  std::vector<LogitPart>& parts_;
};

}  // namespace

Matrix::Matrix(const Tensor& weight) : rows(weight.dim(0)), columns(weight.dim(1)) {
  values = as_f32(weight.detach()).to_vector<double>();
}

Row Matrix::row(int64_t index) const {
  const auto begin = values.begin() + index * columns;
  return {begin, begin + columns};
}

Row Matrix::times_left(const Row& left) const {
  Row result(static_cast<size_t>(columns), 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    const double factor = left[static_cast<size_t>(i)];
    const double* row = &values[static_cast<size_t>(i * columns)];
    for (int64_t k = 0; k < columns; ++k) result[static_cast<size_t>(k)] += factor * row[k];
  }
  return result;
}

double dot(const Row& a, const Row& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Row row_of(const Tensor& parameter, int64_t size) {
  return parameter ? parameter.detach().to_vector<double>() : Row(static_cast<size_t>(size), 0.0);
}

// LayerNorm with the scale s frozen: y = s γ (x − mean x) + β, so slope · y = x · s (γ slope − mean(γ slope)) + slope ·
// β.
Row before_norm(const Norm& norm, const Row& x, const Row& slope) {
  const auto count = static_cast<double>(x.size());
  Row result = slope;
  if (norm.weight) {
    const Row weight = row_of(norm.weight, std::ssize(x));
    for (size_t i = 0; i < result.size(); ++i) result[i] *= weight[i];
  }
  const double middle = norm.rms ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / count;
  double square = 0;
  for (const double value : x) square += (value - middle) * (value - middle);
  const double scale = 1 / std::sqrt(square / count + norm.eps);
  const double mean = norm.rms ? 0 : std::accumulate(result.begin(), result.end(), 0.0) / count;
  for (double& value : result) value = scale * (value - mean);
  return result;
}

Form readout_form(const Experiment& experiment, const ActivationRecorder& seen, const Goal& goal,
                  std::vector<LogitPart>& parts) {
  const Model& model = *experiment.model().model;
  if (const auto* encoder = dynamic_cast<const Encoder*>(&model)) {
    EncoderReadout readout(*encoder, seen, goal, parts);
    return experiment.has_labels() ? readout.classified() : readout.masked();
  }
  if (const auto* vision = dynamic_cast<const Vision*>(&model)) {
    parts.push_back(
        {.kind = PartKind::bias, .module = "classifier", .value = class_bias(vision->classifier->bias, goal)});
    return {{0}, {class_slope(vision->classifier->weight, goal)}};
  }
  const Head head = head_of(model);
  if (head.bias) {
    parts.push_back({.kind = PartKind::bias, .module = "output_bias", .value = class_bias(head.bias, goal)});
  }
  Row slope = class_slope(head.weight, goal);
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model); pair && pair->settings.scale_output) {
    for (double& value : slope) value /= std::sqrt(static_cast<double>(pair->settings.dim));
  }
  return {{goal.output}, {std::move(slope)}};
}

}  // namespace attend
