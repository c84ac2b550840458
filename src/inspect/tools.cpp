#include "inspect/tools.h"

#include <algorithm>
#include <array>

#include "attend/base/error.h"
#include "inspect/json.h"
#include "io/printable.h"

namespace attend {
namespace {

constexpr std::array<const char*, 5> kTools{"lens", "attribute", "patch", "detect", "probe"};
constexpr size_t kMostProbed = 24;

Goal goal_of(const Experiment& experiment, const ToolRequest& request) {
  Goal goal{.output = request.output};
  if (request.wanted) goal.wanted = experiment.class_named(*request.wanted);
  if (request.contrast) goal.contrast = experiment.class_named(*request.contrast);
  return goal;
}

ToolResult run_attribute(const Experiment& experiment, const ToolRequest& request, const OnSteps& on_step) {
  const Goal goal = resolved(experiment, goal_of(experiment, request));
  std::optional<LogitParts> parts;
  if (experiment.stacks().back().layers > 0) parts = logit_parts(experiment, goal);
  return attribute_result(
      experiment, parts,
      attribute_tokens(
          experiment,
          {.goal = goal, .uses_zero = request.uses_zero, .most_steps = request.most_steps, .on_step = on_step}));
}

ToolResult run_patch(const InspectedModel& model, const Experiment& experiment, const ToolRequest& request,
                     const ToolWatch& watch) {
  RunOptions options = request.run;
  require<ShapeError>(request.other || request.other_picture, "patch: a second input is missing");
  if (request.other) {
    options.text = *request.other;
    options.ids.clear();
  }
  if (request.other_picture) options.picture = request.other_picture;
  // Both runs read the same target, so that only the source differs.
  if (model.model->kind() == ModelKind::translation) options.target = experiment.sides()[1].text;
  const Experiment other(model, options);
  PatchOptions sweep{.goal = goal_of(experiment, request),
                     .kinds = request.kinds,
                     .most_runs = request.most_runs,
                     .on_step = watch.on_step};
  if (watch.on_partial) {
    sweep.on_partial = [&](const PatchResult& part) {
      watch.on_partial([&] { return patch_result(experiment, other, part).json; });
    };
  }
  return patch_result(experiment, other, patch_sweep(experiment, other, sweep));
}

std::vector<int32_t> probed_tokens(const InspectedModel& model, const ToolRequest& request) {
  std::vector<int32_t> ids;
  const auto add = [&](int32_t id) {
    if (ids.size() < kMostProbed && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  };
  if (!request.words.empty()) {
    for (const std::string& word : request.words) {
      const std::vector<int32_t> own = model.tokenizer->encode(word);
      require<ShapeError>(own.size() == 1, "probe: ", in_quotes(word), " is ", own.size(), " tokens; name one token");
      add(own[0]);
    }
    return ids;
  }
  for (const int32_t id : model.tokenizer->encode(request.run.text)) add(id);
  return ids;
}

ToolResult run_probe(const InspectedModel& model, const ToolRequest& request, const OnSteps& on_step) {
  require<Error>(model.tokenizer != nullptr, "probe: the model does not read words");
  const CircuitOptions options{.module = request.module,
                               .head = request.head,
                               .tokens = probed_tokens(model, request),
                               .top = request.top,
                               .on_step = on_step};
  return probe_result(options, head_circuits(model, options));
}

}  // namespace

const char* name_of(Tool tool) { return kTools[static_cast<size_t>(tool)]; }

Tool tool_named(const std::string& name) {
  const auto found = std::ranges::find_if(kTools, [&](const char* known) { return name == known; });
  require<ShapeError>(found != kTools.end(), "expected lens, attribute, patch, detect or probe, got ", in_quotes(name));
  return static_cast<Tool>(found - kTools.begin());
}

ToolResult run_tool(const InspectedModel& model, const ToolRequest& request, const ToolWatch& watch) {
  if (request.tool == Tool::probe) return run_probe(model, request, watch.on_step);
  if (request.tool == Tool::detect) {
    const Run run = capture(model, request.run);
    return detect_result(run, detect_heads(model, run, {.threshold = request.threshold}));
  }
  const Experiment experiment(model, request.run);
  if (request.tool == Tool::lens) {
    return lens_result(
        experiment,
        lens(experiment,
             {.top = request.top, .first = request.first, .places = request.places, .on_step = watch.on_step}));
  }
  if (request.tool == Tool::attribute) return run_attribute(experiment, request, watch.on_step);
  return run_patch(model, experiment, request, watch);
}

}  // namespace attend
