#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "inspect/tools.h"

namespace attend::cli {

/// An option that only some tools have.
struct LimitedOption {
  const char* name = "";
  Option* option = nullptr;
  std::vector<Tool> tools;
};

/// The options of `attend inspect` for the tools of interpretability.
struct ToolArguments {
  bool lens = false, attribute = false, detect = false;
  std::string patch, probe;
  std::vector<std::string> activations, words, kinds;
  std::string wanted, contrast, baseline = "mean";
  int64_t at = -1, top = 5, first = 0, places = 64;
  double threshold = 0.4;
  std::string steer, away, steer_at;
  double strength = 1;
  Option *patch_option = nullptr, *wanted_option = nullptr, *contrast_option = nullptr;
  std::vector<LimitedOption> limited{};  ///< options that only some tools have

  /// Whether a tool or activations are requested, instead of the whole run.
  bool is_tool() const;
  /// The requested tool. Throws UsageError for several tools, or for options that the tool does not have.
  void check(const std::string& output) const;
};

void add_tool_options(Command& command, ToolArguments& arguments);

/// Adds the --steer options to a run. Throws UsageError if they are incomplete.
void take_steering(const InspectedModel& model, const ToolArguments& arguments, RunOptions& options);
/// Runs the model. Throws UsageError if the run cannot be steered as requested.
Run steered_run(const InspectedModel& model, const RunOptions& options);

/// Runs the tool and returns the content of the output file. Shows progress, and stops at Ctrl-C.
std::string tool_content(const InspectedModel& model, const ToolArguments& arguments, const RunOptions& options,
                         const std::string& output);
/// Writes the requested activations to a .npy or .safetensors file.
void write_activations(const InspectedModel& model, const ToolArguments& arguments, const RunOptions& options,
                       const std::string& output);

}  // namespace attend::cli
