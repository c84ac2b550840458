#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/io/safetensors.h"
#include "attend/tensor/tensor.h"

// One reference case: a safetensors file with inputs, parameters, and what they must give. A checker reads what it
// needs, says what came out, and the case compares all of it. Whatever the checker did not read counts as an error: an
// option, input or expected value that nothing looked at has not been checked.
namespace attend::golden {

/// The options of a case. Every key must be asked for, unless it is null or false.
class Options {
 public:
  explicit Options(const std::string& json);
  bool has(const std::string& key);  ///< present and not null
  double number(const std::string& key, double otherwise);
  int64_t integer(const std::string& key, int64_t otherwise);
  bool flag(const std::string& key, bool otherwise = false);
  std::string text(const std::string& key, const std::string& otherwise);
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise);
  /// Throws unless the key is absent or equal to `expected`: for what only restates a shape.
  void require_integer(const std::string& key, int64_t expected);
  std::vector<std::string> unread() const;

 private:
  const nlohmann::json* find(const std::string& key);
  nlohmann::json values_;
  std::set<std::string> read_;
};

struct Mismatch {
  std::string tensor;
  double error = 0;  ///< the largest |ours − expected|, NaN where ours is
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
  /// `in.name` or `param.name`. If the file has its gradient (`grad.name` or `grad.param.name`) it is a leaf, and what
  /// backward leaves there is compared.
  Tensor input(const std::string& name) { return tensor("in.", name); }
  Tensor input_or_empty(const std::string& name) { return has_input(name) ? input(name) : Tensor{}; }
  Tensor parameter(const std::string& name) { return tensor("param.", name); }
  Tensor parameter_or_empty(const std::string& name) { return has_parameter(name) ? parameter(name) : Tensor{}; }
  std::vector<std::string> input_names() const;

  /// What was computed for `out.name`. Backward starts from it if the file has its gradient (`grad.name`, or `grad.y`
  /// for the first output), or from 1 if it is the only output and a single number.
  void output(const std::string& name, const Tensor& value) { outputs_.emplace_back(name, value); }

  /// Runs backward and compares everything; empty if all is right. Throws FormatError for what nothing looked at.
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
