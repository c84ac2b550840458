#include <algorithm>
#include <cmath>

#include "inspect/json.h"
#include "inspect/structure.h"
#include "inspect/tools.h"

namespace attend {
namespace {

Json sides_json(const Experiment& experiment) {
  Json sides = Json::array();
  for (const RunSide& side : experiment.sides()) sides.push_back(side_json(side));
  return sides;
}

/// {"id", "text"} of a class.
Json class_json(const ShownToken& token) { return {{"id", token.id}, {"text", token.text}}; }

Json goal_json(const Experiment& experiment, const Goal& goal) {
  return {{"output", goal.output},
          {"wanted", class_json(experiment.class_token(goal.wanted))},
          {"contrast", goal.contrast < 0 ? Json(nullptr) : class_json(experiment.class_token(goal.contrast))}};
}

std::vector<std::string> token_texts(const RunSide& side) {
  std::vector<std::string> texts;
  for (const ShownToken& token : side.tokens) texts.push_back(token.text);
  return texts;
}

const char* name_of(PartKind kind) {
  switch (kind) {
    case PartKind::token:
      return "token";
    case PartKind::position:
      return "position";
    case PartKind::head:
      return "head";
    case PartKind::feed_forward:
      return "feed_forward";
    case PartKind::bias:
      return "bias";
  }
  return "";
}

Json cell_json(const LensCell& cell) {
  Json top = Json::array();
  for (const ShownCandidate& one : cell.top) top.push_back(candidate_json(one));
  return {{"top", std::move(top)}, {"p", cell.probability}, {"rank", cell.rank}, {"entropy", cell.entropy}};
}

/// The parts as a map: a row for each module, a column for each head, and one for the other parts.
LabelledMap parts_map(const LogitParts& parts) {
  LabelledMap map{
      .title = "direct parts of the logit", .rows = {}, .columns = {"all"}, .values = {}, .is_signed = true};
  for (const LogitPart& part : parts.parts) {
    const std::string name = part.kind == PartKind::bias ? "biases"
                             : part.module.empty()       ? name_of(part.kind)
                                                         : part.module;
    auto found = std::find(map.rows.begin(), map.rows.end(), name);
    if (found == map.rows.end()) found = map.rows.insert(map.rows.end(), name), map.values.push_back({0.0});
    std::vector<double>& row = map.values[static_cast<size_t>(found - map.rows.begin())];
    row[0] += part.value;
    if (part.head < 0) continue;
    while (std::ssize(map.columns) < part.head + 2)
      map.columns.push_back("head " + std::to_string(map.columns.size() - 1));
    if (std::ssize(row) < part.head + 2) row.resize(static_cast<size_t>(part.head) + 2, 0.0);
    row[static_cast<size_t>(part.head) + 1] = part.value;
  }
  for (auto& row : map.values) row.resize(map.columns.size(), NAN);
  return map;
}

}  // namespace

ToolResult lens_result(const Experiment& experiment, const Lens& lens) {
  ToolResult result;
  Json places = Json::array();
  LabelledMap map{
      .title = "probability of the best word after each layer", .rows = lens.points, .columns = {}, .values = {}};
  map.values.resize(lens.points.size());
  map.texts.resize(lens.points.size());
  result.columns = {"point",          "place",       "token",     "rank",
                    "candidate",      "probability", "reference", "reference_probability",
                    "reference_rank", "entropy"};
  for (const LensPlace& place : lens.places) {
    Json cells = Json::array();
    const std::string own = place.index < 0 ? "(all)" : place.token.text;
    map.columns.push_back(own);
    for (size_t row = 0; row < place.cells.size(); ++row) {
      const LensCell& cell = place.cells[row];
      cells.push_back(cell_json(cell));
      map.values[row].push_back(cell.top[0].probability);
      map.texts[row].push_back(cell.top[0].token.text);
      for (size_t i = 0; i < cell.top.size(); ++i) {
        result.rows.push_back({lens.points[row], place.index, own, i, cell.top[i].token.text, cell.top[i].probability,
                               place.reference.text, cell.probability, cell.rank, cell.entropy});
      }
    }
    places.push_back({{"index", place.index},
                      {"reference", class_json(place.reference)},
                      {"isTrue", place.is_true},
                      {"cells", std::move(cells)}});
  }
  result.json = {{"tool", "lens"},
                 {"model", experiment.model().name},
                 {"sides", sides_json(experiment)},
                 {"side", lens.side},
                 {"points", lens.points},
                 {"places", std::move(places)}};
  result.maps.push_back(std::move(map));
  return result;
}

ToolResult attribute_result(const Experiment& experiment, const std::optional<LogitParts>& parts,
                            const TokenAttribution& tokens) {
  ToolResult result;
  result.columns = {"what", "module", "layer", "head", "side", "place", "token", "value"};
  Json list = Json::array();
  if (parts) {
    for (const LogitPart& part : parts->parts) {
      list.push_back({{"kind", name_of(part.kind)},
                      {"module", part.module},
                      {"layer", part.layer},
                      {"head", part.head},
                      {"value", part.value}});
      result.rows.push_back({name_of(part.kind), part.module, part.layer, part.head, "", "", "", part.value});
    }
    result.maps.push_back(parts_map(*parts));
  }
  for (size_t side = 0; side < tokens.integrated.size(); ++side) {
    const RunSide& own = experiment.sides()[side];
    result.maps.push_back({.title = own.name + ": integrated gradients, gradient × input",
                           .rows = {"integrated gradients", "gradient × input"},
                           .columns = token_texts(own),
                           .values = {tokens.integrated[side], tokens.gradient[side]},
                           .is_signed = true});
    for (size_t i = 0; i < own.tokens.size(); ++i) {
      result.rows.push_back(
          {"integrated_gradients", "", "", "", own.name, i, own.tokens[i].text, tokens.integrated[side][i]});
      result.rows.push_back(
          {"gradient_x_input", "", "", "", own.name, i, own.tokens[i].text, tokens.gradient[side][i]});
    }
  }
  result.json = {{"tool", "attribute"},
                 {"model", experiment.model().name},
                 {"sides", sides_json(experiment)},
                 {"goal", goal_json(experiment, tokens.goal)},
                 {"value", tokens.value},
                 {"parts", std::move(list)},
                 {"remainder", parts ? Json(parts->remainder) : Json(nullptr)},
                 {"baseline", tokens.baseline},
                 {"gradient", tokens.gradient},
                 {"integrated", tokens.integrated},
                 {"error", tokens.error},
                 {"steps", tokens.steps}};
  return result;
}

ToolResult patch_result(const Experiment& experiment, const Experiment& other, const PatchResult& patch) {
  ToolResult result;
  result.columns = {"kind", "stack", "point", "column", "name", "value", "share"};
  Json maps = Json::array();
  for (const PatchMap& map : patch.maps) {
    Json shares = Json::array();
    LabelledMap drawn{.title = map.stack + ": " + name_of(map.kind),
                      .rows = map.points,
                      .columns = {},
                      .values = {},
                      .is_signed = true};
    const StackPlace* stack = nullptr;
    for (const StackPlace& one : experiment.stacks()) {
      if (one.name == map.stack) stack = &one;
    }
    if (map.kind == PatchKind::head) {
      for (int64_t head = 0; head < map.columns; ++head) drawn.columns.push_back("head " + std::to_string(head));
    } else {
      drawn.columns = token_texts(experiment.sides()[static_cast<size_t>(stack->side)]);
    }
    for (size_t row = 0; row < map.values.size(); ++row) {
      std::vector<double> own;
      for (size_t column = 0; column < map.values[row].size(); ++column) {
        own.push_back(patch.share(map.values[row][column]));
        result.rows.push_back({name_of(map.kind), map.stack, map.points[row], column, drawn.columns[column],
                               map.values[row][column], own.back()});
      }
      shares.push_back(own);
      drawn.values.push_back(std::move(own));
    }
    maps.push_back({{"kind", name_of(map.kind)},
                    {"stack", map.stack},
                    {"side", stack->side},
                    {"points", map.points},
                    {"columns", map.columns},
                    {"values", map.values},
                    {"shares", std::move(shares)}});
    result.maps.push_back(std::move(drawn));
  }
  result.json = {{"tool", "patch"},
                 {"model", experiment.model().name},
                 {"sides", sides_json(experiment)},
                 {"other", sides_json(other)},
                 {"goal", goal_json(experiment, patch.goal)},
                 {"value", patch.value},
                 {"otherValue", patch.other},
                 {"maps", std::move(maps)}};
  return result;
}

}  // namespace attend
