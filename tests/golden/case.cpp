#include "case.h"

#include <cmath>
#include <limits>

#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/tensor/creation.h"

namespace attend::golden {
namespace {

std::string metadata(const SafetensorsFile& file, const char* key, const char* otherwise) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? otherwise : found->second;
}

double parse_rtol(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  require<FormatError>(end != text.c_str() && *end == 0 && value >= 0, "rtol: expected a number, got '", text, "'");
  return value;
}

bool starts_with_any(const std::string& name, std::initializer_list<const char*> groups) {
  for (const char* group : groups) {
    if (name.starts_with(group)) return true;
  }
  return false;
}

/// Absolute tolerances of values and gradients, in addition to the relative one: where sums cancel, the exact gradient
/// may be 0 while rounding errors remain.
constexpr double kValueTolerance = 1e-6, kGradientTolerance = 4e-6;

/// Infinite values must be equal. The tolerance is relative to the largest finite value.
Mismatch worst(const std::string& name, const std::vector<double>& ours, const std::vector<double>& expected,
               double rtol) {
  const double atol = name.starts_with("grad.") ? kGradientTolerance : kValueTolerance;
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  Mismatch result{.tensor = name, .tolerance = rtol * largest + atol};
  for (size_t i = 0; i < ours.size(); ++i) {
    const double error = ours[i] == expected[i] ? 0 : std::abs(ours[i] - expected[i]);
    if (std::isnan(error) || error > result.error) result.error = error;
    if (std::isnan(error)) break;
  }
  return result;
}

}  // namespace

Case::Case(const std::string& path)
    : file_(SafetensorsFile::open(path)),
      op_(metadata(file_, "op", "")),
      rtol_(parse_rtol(metadata(file_, "rtol", "5e-5"))),
      options_(metadata(file_, "options", "{}")) {}

Tensor Case::tensor(const std::string& group, const std::string& name) {
  const std::string full = group + name;
  require<FormatError>(file_.contains(full), "the case has no ", full);
  read_.insert(full);
  const Tensor stored = file_.tensor(full);
  if (!is_floating(stored.dtype())) return stored;
  const Tensor value = to(to(stored.clone(), DType::f32), default_device());
  const std::string gradient = group == "in." ? "grad." + name : "grad." + full;
  if (!file_.contains(gradient)) return value;
  if (!leaves_.contains(gradient)) leaves_[gradient] = attend::parameter(value);
  return leaves_[gradient];
}

std::vector<std::string> Case::input_names() const {
  std::vector<std::string> names;
  for (const TensorInfo& info : file_.tensors()) {
    if (info.name.starts_with("in.")) names.push_back(info.name.substr(3));
  }
  return names;
}

void Case::compare(const std::string& name, const Tensor& ours) {
  if (!file_.contains(name)) return;
  read_.insert(name);
  const Tensor expected = file_.tensor(name);
  const bool single = ours.numel() == 1 && expected.numel() == 1;
  require<ShapeError>(single || ours.shape() == expected.shape(), name, ": expected shape ", expected.shape(), ", got ",
                      ours.shape());
  const Mismatch found = worst(name, ours.to_vector<double>(), expected.to_vector<double>(), rtol_);
  if (!(found.error <= found.tolerance)) mismatches_.push_back(found);
}

/// Runs backward on Σ output · upstream over all outputs with an upstream gradient, so that one pass covers them all.
void Case::run_backward() {
  Tensor total;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [name, value] = outputs_[i];
    std::string upstream = "grad." + name;
    if (i == 0 && !file_.contains(upstream)) upstream = "grad.y";
    const bool given = file_.contains(upstream) && !leaves_.contains(upstream);
    if (given) read_.insert(upstream);
    if (!value.variable() || !(given || (outputs_.size() == 1 && value.numel() == 1))) continue;
    const Tensor dy = given ? to(to(file_.tensor(upstream).clone(), DType::f32), value.device()) : ones(value.shape());
    require<ShapeError>(dy.numel() == value.numel(), upstream, ": has shape ", dy.shape(), " but the output has ",
                        value.shape());
    const Tensor term = sum(value * dy.as_strided(value.shape(), contiguous_strides(value.shape()), 0));
    total = total ? total + term : term;
  }
  if (total) backward(total);
}

void Case::compare_gradients() {
  for (const auto& [name, leaf] : leaves_) {
    const Tensor gradient = grad(leaf);
    require<FormatError>(static_cast<bool>(gradient), name, ": is expected, but no gradient was computed");
    compare(name, gradient);
  }
}

void Case::require_all_read() const {
  for (const TensorInfo& info : file_.tensors()) {
    const bool known = starts_with_any(info.name, {"in.", "param.", "out.", "grad."});
    require<FormatError>(known && read_.contains(info.name), "nothing checks ", info.name);
  }
  const std::vector<std::string> unread = options_.unread();
  require<FormatError>(unread.empty(), "unknown option ", unread.empty() ? "" : unread.front());
}

std::vector<Mismatch> Case::finish() {
  for (const auto& [name, value] : outputs_) {
    require<FormatError>(has_output(name) || outputs_.size() > 1, "the case has no out.", name);
    compare("out." + name, value);
  }
  run_backward();
  compare_gradients();
  require_all_read();
  return mismatches_;
}

}  // namespace attend::golden
