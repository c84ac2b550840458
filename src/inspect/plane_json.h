#pragma once

#include "attend/inspect/embeddings.h"
#include "inspect/json.h"

namespace attend {

inline Json plane_json(const Plane& plane) {
  Json points = Json::array();
  for (const PlanePoint& point : plane.points) {
    points.push_back({{"id", point.id}, {"text", point.text}, {"x", point.x}, {"y", point.y}});
  }
  return {{"points", std::move(points)}, {"total", plane.total}, {"explained", plane.explained}};
}

inline Json neighbours_json(const TokenNeighbours& neighbours) {
  const auto list = [](const std::vector<TokenNeighbour>& tokens) {
    Json json = Json::array();
    for (const TokenNeighbour& one : tokens) {
      json.push_back({{"id", one.token.id}, {"text", one.token.text}, {"value", one.value}});
    }
    return json;
  };
  return {{"token", token_json(neighbours.token)}, {"dot", list(neighbours.dot)}, {"cosine", list(neighbours.cosine)}};
}

inline Json tokens_json(const std::vector<ShownToken>& tokens) {
  Json list = Json::array();
  for (const ShownToken& token : tokens) list.push_back({{"id", token.id}, {"text", token.text}});
  return {{"tokens", std::move(list)}};
}

}  // namespace attend
