#include "attend/inspect/document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "attend/base/error.h"
#include "attend/inspect/arrays.h"
#include "attend/inspect/embeddings.h"
#include "attend/inspect/generation.h"
#include "inspect/json.h"
#include "inspect/plane_json.h"
#include "io/base64.h"

namespace attend {
namespace {

constexpr int64_t kStatRows = 4096, kShownTokens = 2000, kWritten = 48, kTranslated = 256;
constexpr int64_t kBeam = 4, kWidest = 8;  // default and maximum beam size of the generation tree
constexpr std::string_view kPlace = "<!--attend-data-->";

/// Appends the shortest text that parses back to the same float. NaN and ∞ become null: JSON has neither.
void append_number(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
}

void append_nested(std::string& out, const Array& array, int64_t axis, size_t& at) {
  out += '[';
  for (int64_t i = 0; i < array.shape[axis]; ++i) {
    if (i > 0) out += ',';
    if (axis + 1 == array.shape.rank()) {
      append_number(out, array.values[at++]);
    } else {
      append_nested(out, array, axis + 1, at);
    }
  }
  out += ']';
}

void append_array(std::string& out, const std::string& name, const Array& array, bool packed) {
  out += json_text(name) + ":{\"shape\":" + json_text(std::vector<int64_t>(array.shape.begin(), array.shape.end()));
  if (packed) {
    out += ",\"data\":\"";
    append_base64(out, std::as_bytes(std::span(array.values)));
    out += "\"}";
  } else {
    out += ",\"values\":";
    size_t at = 0;
    append_nested(out, array, 0, at);
    out += '}';
  }
}

Json all_stats(const Run& run) {
  Json stats = Json::object();
  for (size_t a = 0; a < run.attention.size(); ++a) {
    if (run.attention[a].queries() > kStatRows) continue;
    for (int64_t head = 0; head < run.attention[a].heads(); ++head) {
      stats[std::to_string(a) + "/" + std::to_string(head)] = stats_json(run, static_cast<int64_t>(a), head);
    }
  }
  return stats;
}

/// The lines that generate_steps produces for the run's text.
Json generation_lines(const InspectedModel& model, const Run& run) {
  Json lines = Json::array();
  const int64_t room = model.model->context() - std::ssize(run.sides[0].tokens);
  const bool writes = model.model->kind() == ModelKind::translation || model.model->kind() == ModelKind::language;
  if (!writes || room < 1) return lines;
  std::string text = run.sides[0].text;  // begins with the prefix, if the model has one
  if (model.model->kind() == ModelKind::translation) text.erase(0, model.rules.prefix.size());
  const bool translates = model.model->kind() == ModelKind::translation;
  const GenerationOptions options{.text = text,
                                  .beam = page_beam(model.rules),
                                  .length = translates ? kTranslated : kWritten,
                                  .rules = model.rules};
  generate_steps(*model.model, *model.tokenizer, options, [&](const std::string& line) {
    lines.push_back(Json::parse(line));
    return true;
  });
  return lines;
}

}  // namespace

int64_t page_beam(const GenerationRules& rules) { return rules.beam > 0 ? std::min(rules.beam, kWidest) : kBeam; }

Run capture(const InspectedModel& model, RunOptions options) {
  if (const auto* reads_pictures = dynamic_cast<const ImageModel*>(model.model.get())) {
    return capture(*reads_pictures, model.preparation, options);
  }
  options.rules = model.rules;
  if (options.beam == 0) options.beam = page_beam(model.rules);
  return capture(*model.model, *model.tokenizer, options);
}

void choose_example(InspectedModel& model) {
  if (!model.example.empty() || !model.tokenizer) return;
  const auto badness = [&](const std::string& text) {
    const auto ids = model.tokenizer->encode(text);
    const auto unknown = std::ranges::count(ids, model.tokenizer->special().unknown);
    const bool fits = std::ssize(ids) + 2 <= model.model->context();
    return std::pair{!fits, static_cast<double>(unknown) / static_cast<double>(std::max<size_t>(ids.size(), 1))};
  };
  model.example = "The cat sat on the mat because it was tired.";
  for (const char* other : {"今天天气很好。", "Die Katze schläft auf dem Sofa.", "The cat sat.", "2025"}) {
    if (badness(other) < badness(model.example)) model.example = other;
  }
}

std::string inspect_document(const InspectedModel& model, const Run& run, const DocumentOptions& options) {
  const Json about = model_json(*model.model, model.id, model.name,
                                {.text = model.example, .target = model.example_target}, page_beam(model.rules));
  Json whole_run{{"id", "r0"}, {"model", model.id}};
  whole_run.update(run_json(run));
  std::string out = "{\"format\":\"attend-inspect\",\"version\":1";
  const auto member = [&](const char* name, const std::string& json) {
    out.append(",\"").append(name).append("\":").append(json);
  };
  member("info", json_text({{"version", options.version}, {"models", {about}}, {"training", false}}));
  member("run", json_text(whole_run));
  member("heads", json_text(heads_json(run)));
  member("stats", json_text(all_stats(run)));
  if (has_alignment(run)) member("alignment", json_text(alignment_json(alignment_of(run, *model.tokenizer))));
  if (model.tokenizer) {
    member("embeddings", json_text(plane_json(token_plane(*model.model, *model.tokenizer, kShownTokens))));
  } else {
    member("positions", json_text(plane_json(position_plane(*model.model, kShownTokens))));
  }
  if (const Json lines = generation_lines(model, run); !lines.empty()) member("generation", json_text(lines));
  if (!options.training.empty()) member("training", options.training);
  out += ",\"arrays\":{";
  int64_t room = options.most_values;
  bool is_first = true;
  Json left_out = Json::array();
  for (const std::string& name : array_names(run)) {
    const int64_t size = array_size(run, name);
    if (size > room) {
      left_out.push_back(name);
      continue;
    }
    room -= size;
    if (!is_first) out += ',';
    is_first = false;
    append_array(out, name, run_array(run, name), options.packed);
  }
  out += "}";
  member("leftOut", json_text(left_out));
  return out + "}";
}

std::string inspect_page(std::string_view page, std::string_view document) {
  const size_t place = page.find(kPlace);
  require<FormatError>(place != std::string_view::npos, "inspect: the page has no placeholder for data");
  std::string out(page.substr(0, place));
  out.reserve(page.size() + document.size() + 128);
  out += "<script type=\"application/json\" id=\"attend-data\">";
  for (const char c : document) {  // escape '<', so that no text in the data can close the <script> element
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  out += "</script>";
  out += page.substr(place + kPlace.size());
  return out;
}

}  // namespace attend
