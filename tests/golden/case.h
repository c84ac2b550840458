#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/io/safetensors.h"
#include "attend/tensor/tensor.h"

// One reference case: a safetensors file with inputs, parameters and expected outputs. A checker reads the inputs and
// reports its outputs, and the case compares them. Any option, input or expected value that the checker did not use is
// an error, as it has not been checked.
namespace attend::golden {

/// The options of a case. Every key must be read, unless it is null or false.
class Options {
 public:
  explicit Options(const std::string& json);
  bool has(const std::string& key);  ///< present and not null
  double number(const std::string& key, double otherwise);
  int64_t integer(const std::string& key, int64_t otherwise);
  bool flag(const std::string& key, bool otherwise = false);
  std::string text(const std::string& key, const std::string& otherwise);
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise);
  /// Throws unless the key is absent or equal to `expected`. For options that only repeat a shape.
  void require_integer(const std::string& key, int64_t expected);
  std::vector<std::string> unread() const;

 private:
  const nlohmann::json* find(const std::string& key);
  nlohmann::json values_;
  std::set<std::string> read_;
};

struct Mismatch {
  std::string tensor;
  double error = 0;  ///< the largest |ours − expected|; NaN if ours is NaN
  double tolerance = 0;
};

class Case {
 public:
  explicit Case(const std::string& path);

  const std::string& op() const { return op_; }
  Options& options() { return options_; }

  bool has_input(const std::string& name) const { return file_.contains("in." + name); }
  bool has_parameter(const std::string& name) const { return file_.contains("param." + name); }
  bool has_output(const std::string& name) const { return file_.contains("out." + name); }
  /// `in.name` or `param.name`. If the file has its gradient (`grad.name` or `grad.param.name`), it is a leaf, and the
  /// gradient from backward is compared.
  Tensor input(const std::string& name) { return tensor("in.", name); }
  Tensor input_or_empty(const std::string& name) { return has_input(name) ? input(name) : Tensor{}; }
  Tensor parameter(const std::string& name) { return tensor("param.", name); }
  Tensor parameter_or_empty(const std::string& name) { return has_parameter(name) ? parameter(name) : Tensor{}; }
  std::vector<std::string> input_names() const;

  /// Reports the value computed for `out.name`. Backward starts from its gradient in the file (`grad.name`, or `grad.y`
  /// for the first output), or from 1 if it is the only output and a scalar.
  void output(const std::string& name, const Tensor& value) { outputs_.emplace_back(name, value); }

  /// Runs backward and compares everything; empty if all values match. Throws FormatError for unused entries.
  std::vector<Mismatch> finish();

 private:
  Tensor tensor(const std::string& group, const std::string& name);
  void run_backward();
  void compare(const std::string& name, const Tensor& ours);
  void compare_gradients();
  void require_all_read() const;

  SafetensorsFile file_;
  std::string op_;
  double rtol_ = 0;
  Options options_;
  std::set<std::string> read_;
  std::map<std::string, Tensor> leaves_;  // by the name of their gradient
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::vector<Mismatch> mismatches_;
};

}  // namespace attend::golden
