#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attend/inspect/attribute.h"
#include "attend/inspect/circuits.h"
#include "attend/inspect/detect.h"
#include "attend/inspect/lens.h"
#include "attend/inspect/patch.h"
#include "attend/io/json.h"

// The tools of interpretability as the command and the server offer them: one request, one result in three forms.
namespace attend {

enum class Tool { lens, attribute, patch, detect, probe };
const char* name_of(Tool tool);
/// Throws ShapeError for an unknown name.
Tool tool_named(const std::string& name);

struct ToolRequest {
  Tool tool = Tool::lens;
  RunOptions run{};
  std::optional<std::string> other{};               ///< patch: the other text
  std::shared_ptr<const Image> other_picture{};     ///< patch, image models: the other image
  std::optional<std::string> wanted{}, contrast{};  ///< attribute, patch: tokens or labels
  int64_t output = -1;                              ///< attribute, patch: index of the output; -1: the last
  std::vector<PatchKind> kinds{};                   ///< patch
  int64_t most_runs = 20000;                        ///< patch
  int64_t top = 5;                                  ///< lens, probe
  int64_t first = 0, places = 64;                   ///< lens
  double threshold = 0.4;                           ///< detect
  bool uses_zero = false;                           ///< attribute: zero baseline
  int64_t most_steps = 512;                         ///< attribute
  std::string module{};                             ///< probe
  int64_t head = 0;                                 ///< probe
  std::vector<std::string> words{};                 ///< probe: default: the tokens of the text
};

/// A matrix with labels, to be drawn as a heat map.
struct LabelledMap {
  std::string title;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::string>> texts{};  ///< in the cells; may be empty
  bool is_signed = false;                         ///< colours for both signs, scaled by the largest magnitude
};

struct ToolResult {
  Json json;
  std::vector<std::string> columns;  ///< of the table
  std::vector<std::vector<Json>> rows;
  std::vector<LabelledMap> maps;
};

/// Follows the work of a tool.
struct ToolWatch {
  OnSteps on_step{};
  /// patch: called after each patch, with a function that computes the JSON of the cells so far.
  std::function<void(const std::function<Json()>& partial)> on_partial{};
};

/// Runs a tool. Throws as the tool does.
ToolResult run_tool(const InspectedModel& model, const ToolRequest& request, const ToolWatch& watch = {});

/// The table as CSV (RFC 4180), with a header line.
std::string tool_csv(const ToolResult& result);
/// The maps as a self-contained SVG.
std::string tool_svg(const ToolResult& result);

// The results of single tools.
ToolResult lens_result(const Experiment& experiment, const Lens& lens);
ToolResult attribute_result(const Experiment& experiment, const std::optional<LogitParts>& parts,
                            const TokenAttribution& tokens);
ToolResult patch_result(const Experiment& experiment, const Experiment& other, const PatchResult& patch);
ToolResult detect_result(const Run& run, const Detection& detection);
ToolResult probe_result(const CircuitOptions& options, const HeadCircuits& circuits);

}  // namespace attend
