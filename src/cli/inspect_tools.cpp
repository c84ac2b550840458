#include "cli/inspect_tools.h"

#include <algorithm>
#include <charconv>
#include <iostream>

#include "attend/base/error.h"
#include "attend/inspect/experiment.h"
#include "attend/io/files.h"
#include "attend/io/image.h"
#include "attend/io/safetensors.h"
#include "attend/tensor/creation.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "cli/text_files.h"
#include "inspect/json.h"
#include "inspect/logits.h"
#include "io/npy.h"

namespace attend::cli {
namespace {

constexpr const char* kHeading = "Interpretability";

const std::vector<std::pair<std::string, PatchKind>> kPatchKinds{{"residual", PatchKind::residual},
                                                                 {"attention", PatchKind::attention},
                                                                 {"cross", PatchKind::cross},
                                                                 {"feed_forward", PatchKind::feed_forward},
                                                                 {"head", PatchKind::head}};

std::vector<Tool> tools_of(const ToolArguments& arguments) {
  std::vector<Tool> tools;
  if (arguments.lens) tools.push_back(Tool::lens);
  if (arguments.attribute) tools.push_back(Tool::attribute);
  if (arguments.patch_option->count() > 0) tools.push_back(Tool::patch);
  if (arguments.detect) tools.push_back(Tool::detect);
  if (!arguments.probe.empty()) tools.push_back(Tool::probe);
  return tools;
}

bool is_whole(const std::string& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

/// "MODULE.HEAD", or "LAYER.HEAD" for the self-attention of the last stack.
void take_head(const InspectedModel& model, const std::string& name, ToolRequest& request) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || !is_whole(name.substr(dot + 1), request.head)) {
    throw UsageError("--probe: expected LAYER.HEAD or MODULE.HEAD, got '" + name + "'");
  }
  request.module = name.substr(0, dot);
  int64_t layer = 0;
  if (!is_whole(request.module, layer)) return;
  const bool is_pair = model.model->kind() == ModelKind::translation;
  request.module = (is_pair ? "decoder.layers." : "stack.layers.") + std::to_string(layer) + ".attention";
}

ToolRequest request_of(const InspectedModel& model, const ToolArguments& arguments, const RunOptions& options) {
  ToolRequest request;
  request.tool = tools_of(arguments).at(0);
  request.run = options;
  request.output = arguments.at;
  request.top = arguments.top;
  request.first = arguments.first;
  request.places = arguments.places;
  request.threshold = arguments.threshold;
  request.uses_zero = arguments.baseline == "zero";
  request.words = arguments.words;
  if (arguments.wanted_option->count() > 0) request.wanted = arguments.wanted;
  if (arguments.contrast_option->count() > 0) request.contrast = arguments.contrast;
  if (request.tool == Tool::probe) take_head(model, arguments.probe, request);
  for (const std::string& name : arguments.kinds) {
    for (const auto& [known, kind] : kPatchKinds) {
      if (known == name) request.kinds.push_back(kind);
    }
  }
  if (request.tool != Tool::patch) return request;
  if (model.model->kind() == ModelKind::pictures) {
    request.other_picture = std::make_shared<const Image>(read_image(arguments.patch));
  } else {
    request.other = arguments.patch;
  }
  return request;
}

/// An error message without the name of the operation at its start: "circuits: …".
std::string without_op(const std::string& message) {
  const size_t colon = message.find(": ");
  const bool has_op = colon != std::string::npos && message.find(' ') > colon;
  return has_op ? message.substr(colon + 2) : message;
}

/// `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  for (size_t i = star; i <= name.size(); ++i) {
    if (matches(pattern.substr(star + 1), name.substr(i))) return true;
  }
  return false;
}

/// Shows progress, and throws StopRequested at Ctrl-C.
class ToolProgress {
 public:
  ToolProgress() { stop_after_lines(); }
  OnSteps on_step() {
    return [this](int64_t done, int64_t total) {
      check_stop();
      line_.share("Computing", static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1)));
    };
  }

 private:
  StatusLine line_;
};

}  // namespace

bool ToolArguments::is_tool() const { return !tools_of(*this).empty() || !activations.empty(); }

void ToolArguments::check(const std::string& output) const {
  const std::vector<Tool> tools = tools_of(*this);
  if (tools.size() + (activations.empty() ? 0 : 1) > 1)
    throw UsageError("--lens, --attribute, --patch, --detect, --probe and --activations cannot be combined");
  for (const auto& [name, option, allowed] : limited) {
    const bool is_allowed = !tools.empty() && std::ranges::find(allowed, tools[0]) != allowed.end();
    if (option->count() == 0 || is_allowed) continue;
    std::string names;
    for (const Tool tool : allowed) names += (names.empty() ? "--" : " or --") + std::string(name_of(tool));
    throw UsageError(std::string(name) + " requires " + names);
  }
  if (!activations.empty()) {
    if (!output.ends_with(".npy") && !output.ends_with(".safetensors"))
      throw UsageError("--activations requires an output file ending in .npy or .safetensors");
  } else if (!tools.empty() && !output.empty() && !output.ends_with(".json") && !output.ends_with(".csv") &&
             !output.ends_with(".svg")) {
    throw UsageError("expected an output file ending in .json, .csv or .svg, got '" + output + "'");
  }
  if (steer.empty() && !(away.empty() && steer_at.empty())) throw UsageError("--away and --steer-at require --steer");
  if (!steer.empty() && !tools.empty() && !detect)
    throw UsageError("--steer cannot be combined with --lens, --attribute, --patch or --probe");
}

void take_steering(const InspectedModel& model, const ToolArguments& arguments, RunOptions& options) {
  if (arguments.steer.empty()) return;
  int64_t layer = 0;
  Steering steering{
      .point = arguments.steer_at, .toward = arguments.steer, .away = arguments.away, .strength = arguments.strength};
  if (arguments.steer_at.empty()) throw UsageError("--steer requires --steer-at");
  if (is_whole(arguments.steer_at, layer)) {
    const bool is_pair = model.model->kind() == ModelKind::translation;
    steering.point = (is_pair ? "decoder.layers." : "stack.layers.") + std::to_string(layer) + ":output";
  }
  options.steer.push_back(std::move(steering));
}

Run steered_run(const InspectedModel& model, const RunOptions& options) {
  if (options.steer.empty()) return capture(model, options);
  try {
    return capture(model, options);
  } catch (const ShapeError& error) {
    throw UsageError("--steer: " + without_op(error.what()));
  }
}

std::string tool_content(const InspectedModel& model, const ToolArguments& arguments, const RunOptions& options,
                         const std::string& output) {
  try {
    ToolProgress progress;
    const ToolResult result = run_tool(model, request_of(model, arguments, options), {.on_step = progress.on_step()});
    if (output.ends_with(".csv")) return tool_csv(result);
    if (output.ends_with(".svg")) return tool_svg(result);
    return json_text(result.json) + "\n";
  } catch (const StopRequested&) {
    exit_by_signal();
  } catch (const ShapeError& error) {  // a layer, head, output or word that this model or text does not have
    throw UsageError("--" + std::string(name_of(tools_of(arguments).at(0))) + ": " + without_op(error.what()));
  }
}

void write_activations(const InspectedModel& model, const ToolArguments& arguments, const RunOptions& options,
                       const std::string& output) {
  std::vector<NamedTensor> found;
  const Run run = steered_run(model, options);
  std::vector<NamedTensor> all = run.values;
  if (std::ranges::find(arguments.activations, "logits") != arguments.activations.end()) {
    all.emplace_back("logits", run_logits(*model.model, run));
  }
  for (const std::string& pattern : arguments.activations) {
    bool is_known = false;
    for (const auto& [name, value] : all) {
      if (!matches(pattern == "all" ? "*" : pattern, name)) continue;
      is_known = true;
      const bool is_new = std::ranges::find(found, name, &NamedTensor::first) == found.end();
      if (is_new) found.emplace_back(name, to(value, kCpu).clone());
    }
    if (is_known) continue;
    std::string known;
    for (const auto& [name, value] : run.values) known += " " + name;
    throw UsageError("--activations: the model has no activation '" + pattern + "'; it has logits" + known);
  }
  if (output.ends_with(".safetensors")) return write_safetensors(output, found);
  if (found.size() != 1) {
    throw UsageError("a .npy file holds one activation, but " + std::to_string(found.size()) +
                     " were requested; use a .safetensors file");
  }
  const Tensor& value = found[0].second;
  write_file(behind_links(output), npy_bytes(value.to_vector<float>(), value.dim(0), value.dim(1)));
}

void add_tool_options(Command& command, ToolArguments& a) {
  const auto limit = [&](const char* name, Option* option, std::vector<Tool> tools) {
    option->group(kHeading);
    a.limited.push_back({name, option, std::move(tools)});
    return option;
  };
  command.add_flag("--lens", a.lens, "Predictions after each layer, by the model's own final norm and output layer")
      ->group(kHeading);
  command
      .add_flag("--attribute", a.attribute,
                "A prediction shared out: over heads, feed-forward networks and biases, and over input tokens")
      ->group(kHeading);
  a.patch_option =
      command
          .add_option("--patch", a.patch,
                      "Effect of copying each activation from a run of another text with the same number of tokens")
          ->type_name("TEXT")
          ->group(kHeading);
  command.add_flag("--detect", a.detect, "Scores of well-known kinds of heads, such as induction heads")
      ->group(kHeading);
  command
      .add_option("--probe", a.probe,
                  "Words that a head looks for and writes, for the tokens of TEXT; LAYER.HEAD or MODULE.HEAD")
      ->type_name("NAME")
      ->group(kHeading);
  command
      .add_option("--activations", a.activations,
                  "Write activations to a .npy or .safetensors file: names with *, logits, or all")
      ->type_name("NAME")
      ->expected(1, 1000)
      ->group(kHeading);
  a.wanted_option =
      limit("--for",
            command.add_option("--for", a.wanted, "Token or label whose logit is studied (default: the best)")
                ->type_name("TEXT"),
            {Tool::attribute, Tool::patch});
  a.contrast_option =
      limit("--against",
            command.add_option("--against", a.contrast, "Token or label whose logit is subtracted")->type_name("TEXT"),
            {Tool::attribute, Tool::patch});
  limit("--at",
        command
            .add_option(
                "--at", a.at,
                "Output place that is studied, from 0 (default: the last; --patch: the last where the texts differ)")
            ->check(whole_number(0, 1000000))
            ->type_name("N"),
        {Tool::attribute, Tool::patch});
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : kPatchKinds) kinds.push_back(name);
  limit("--kinds",
        command
            .add_option("--kinds", a.kinds,
                        "Activations to patch: residual, attention, cross, feed_forward, head (default: all)")
            ->check(one_of(kinds))
            ->type_name("NAME")
            ->expected(1, 5),
        {Tool::patch});
  limit(
      "--baseline",
      command
          .add_option("--baseline", a.baseline, "Start of integrated gradients: mean or zero embedding (default: mean)")
          ->check(one_of({"mean", "zero"}))
          ->type_name("NAME"),
      {Tool::attribute});
  limit("--top",
        command.add_option("--top", a.top, "Number of words per list (default: 5)")
            ->check(whole_number(1, 50))
            ->type_name("N"),
        {Tool::lens, Tool::probe});
  limit("--first",
        command.add_option("--first", a.first, "First place of the lens, from 0 (default: 0)")
            ->check(whole_number(0, 1000000))
            ->type_name("N"),
        {Tool::lens});
  limit("--places",
        command.add_option("--places", a.places, "Maximum number of places of the lens (default: 64)")
            ->check(whole_number(1, 512))
            ->type_name("N"),
        {Tool::lens});
  limit("--threshold",
        command.add_option("--threshold", a.threshold, "Smallest score that names a head's kind (default: 0.4)")
            ->check(number_between(0, 1))
            ->type_name("P"),
        {Tool::detect});
  limit("--words",
        command.add_option("--words", a.words, "Tokens to probe (default: those of TEXT)")
            ->type_name("TEXT")
            ->expected(1, 64),
        {Tool::probe});
  command.add_option("--steer", a.steer, "Add the direction toward this text to an activation")
      ->type_name("TEXT")
      ->group(kHeading);
  command.add_option("--away", a.away, "Text whose direction is subtracted from that of --steer")
      ->type_name("TEXT")
      ->group(kHeading);
  command.add_option("--steer-at", a.steer_at, "Layer to steer, from 0, or the name of an activation")
      ->type_name("NAME")
      ->group(kHeading);
  command.add_option("--strength", a.strength, "Factor of the direction of --steer (default: 1)")
      ->check(number_between(-1e6, 1e6))
      ->type_name("A")
      ->group(kHeading);
}

}  // namespace attend::cli
