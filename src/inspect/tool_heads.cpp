#include <algorithm>
#include <cmath>

#include "inspect/json.h"
#include "inspect/tools.h"

// Results of the tools that study heads.
namespace attend {
namespace {

Json scores_json(const std::array<std::optional<double>, kHeadKinds>& scores) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kHeadKinds; ++kind) json[name_of(static_cast<HeadKind>(kind))] = Json(scores[kind]);
  return json;
}

Json words_json(const std::vector<TokenNeighbour>& words) {
  Json json = Json::array();
  for (const TokenNeighbour& one : words) {
    json.push_back({{"id", one.token.id}, {"text", one.token.text}, {"value", one.value}});
  }
  return json;
}

}  // namespace

ToolResult detect_result(const Run& run, const Detection& detection) {
  ToolResult result;
  result.columns = {"module", "head", "kind", "text", "probe", "offset", "badge"};
  Json heads = Json::array();
  LabelledMap map{.title = "scores of heads", .rows = {}, .columns = {}, .values = {}};
  for (size_t kind = 0; kind < kHeadKinds; ++kind) map.columns.push_back(name_of(static_cast<HeadKind>(kind)));
  for (const HeadScores& head : detection.heads) {
    const std::string& path = run.attention[static_cast<size_t>(head.attention)].trace.path;
    Json kinds = Json::array();
    for (const HeadKind kind : head.kinds) kinds.push_back(name_of(kind));
    map.rows.push_back(path + " head " + std::to_string(head.head));
    std::vector<double>& row = map.values.emplace_back();
    for (size_t i = 0; i < kHeadKinds; ++i) {
      const auto kind = static_cast<HeadKind>(i);
      row.push_back((head.probe[i] ? head.probe[i] : head.text[i]).value_or(NAN));
      if (!head.probe[i] && !head.text[i]) continue;
      result.rows.push_back({path, head.head, name_of(kind), Json(head.text[i]), Json(head.probe[i]),
                             kind == HeadKind::positional ? Json(head.offset) : Json(""),
                             std::find(head.kinds.begin(), head.kinds.end(), kind) != head.kinds.end()});
    }
    heads.push_back({{"attention", head.attention},
                     {"module", path},
                     {"head", head.head},
                     {"kinds", std::move(kinds)},
                     {"offset", head.offset},
                     {"text", scores_json(head.text)},
                     {"probe", scores_json(head.probe)}});
  }
  result.json = {{"tool", "detect"},
                 {"threshold", detection.threshold},
                 {"probeTokens", detection.probe_tokens},
                 {"heads", std::move(heads)}};
  result.maps.push_back(std::move(map));
  return result;
}

ToolResult probe_result(const CircuitOptions& options, const HeadCircuits& circuits) {
  ToolResult result;
  result.columns = {"token", "list", "rank", "word", "value"};
  Json tokens = Json::array();
  LabelledMap ov{.title = "OV: words raised by each token", .rows = {}, .columns = {}, .values = {}, .is_signed = true};
  LabelledMap qk{.title = "QK: words sought by each token", .rows = {}, .columns = {}, .values = {}, .is_signed = true};
  for (int64_t i = 1; i <= options.top; ++i) ov.columns.push_back("#" + std::to_string(i));
  qk.columns = ov.columns;
  for (const TokenCircuit& one : circuits.tokens) {
    tokens.push_back({{"token", {{"id", one.token.id}, {"text", one.token.text}}},
                      {"raises", words_json(one.raises)},
                      {"lowers", words_json(one.lowers)},
                      {"seeks", words_json(one.seeks)},
                      {"avoids", words_json(one.avoids)}});
    const auto list = [&](const char* name, const std::vector<TokenNeighbour>& words, LabelledMap* map) {
      if (map) map->rows.push_back(one.token.text), map->values.emplace_back(), map->texts.emplace_back();
      for (size_t i = 0; i < words.size(); ++i) {
        result.rows.push_back({one.token.text, name, i, words[i].token.text, words[i].value});
        if (map) map->values.back().push_back(words[i].value), map->texts.back().push_back(words[i].token.text);
      }
    };
    list("raises", one.raises, &ov);
    list("lowers", one.lowers, nullptr);
    list("seeks", one.seeks, &qk);
    list("avoids", one.avoids, nullptr);
  }
  result.json = {{"tool", "probe"},
                 {"module", options.module},
                 {"head", options.head},
                 {"copying", Json(circuits.copying)},
                 {"sampled", circuits.sampled},
                 {"tokens", std::move(tokens)}};
  result.maps = {std::move(ov), std::move(qk)};
  return result;
}

}  // namespace attend
