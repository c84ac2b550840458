// GET /v1/models, GET /v1/models/NAME, GET /health and GET /metrics
#include <algorithm>

#include "io/printable.h"
#include "serve/model_routes.h"

namespace attend {
namespace {

const char* kind_of(const ModelEntry& model) {
  switch (model.model().kind()) {
    case ModelKind::translation:
      return "translation";
    case ModelKind::language:
      return "language";
    case ModelKind::classification:
      return "encoder";
    case ModelKind::pictures:
      return "image";
  }
  return "";
}

Json model_json(const ModelEntry& model) {
  return {{"id", model.own.name}, {"object", "model"},      {"created", model.created},
          {"owned_by", "attend"}, {"kind", kind_of(model)}, {"context_length", model.context()}};
}

}  // namespace

void answer_models(RouteContext& context, const HttpRequest& request, Responder& responder) {
  constexpr std::string_view kOne = "/v1/models/";
  if (request.path.starts_with(kOne)) {
    const std::string name = request.path.substr(kOne.size());
    const auto found = std::ranges::find(context.models, name, [](const auto& model) { return model->own.name; });
    if (found == context.models.end()) {
      throw RequestError(404, "there is no model " + in_quotes(name), "model", "model_not_found");
    }
    return responder.send({.body = model_json(**found).dump()});
  }
  Json list = Json::array();
  for (const auto& model : context.models) list.push_back(model_json(*model));
  responder.send({.body = Json{{"object", "list"}, {"data", std::move(list)}}.dump()});
}

void answer_health(RouteContext&, const HttpRequest&, Responder& responder) {
  responder.send({.body = R"({"status":"ok"})"});
}

void answer_metrics(RouteContext& context, const HttpRequest&, Responder& responder) {
  responder.send({.type = "text/plain; version=0.0.4; charset=utf-8", .body = context.metrics.text()});
}

}  // namespace attend
