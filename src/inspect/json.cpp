#include "inspect/json.h"

#include <span>

#include "io/base64.h"

namespace attend {
namespace {

const char* name_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::text:
      return "text";
    case TokenKind::byte:
      return "byte";
    case TokenKind::special:
      return "special";
  }
  return "";
}

const char* name_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::translation:
      return "translation";
    case ModelKind::language:
      return "language";
    case ModelKind::classification:
      return "classification";
    case ModelKind::pictures:
      return "image";
  }
  return "";
}

Json output_json(const RunOutput& output) {
  if (output.kind == RunOutput::Kind::none) return {{"kind", "none"}};
  if (output.kind == RunOutput::Kind::labels) {
    Json items = Json::array();
    for (const ShownLabel& one : output.labels) {
      items.push_back({{"label", one.name}, {"p", one.score}, {"logit", one.logit}});
    }
    Json json{{"kind", "labels"}, {"items", std::move(items)}};
    if (output.are_values) json["values"] = true;
    return json;
  }
  Json rows = Json::array();
  for (const auto& row : output.rows) {
    Json candidates = Json::array();
    for (const ShownCandidate& candidate : row) {
      candidates.push_back(candidate_json(candidate));
      candidates.back()["logit"] = candidate.logit;
    }
    rows.push_back(std::move(candidates));
  }
  Json json{{"kind", "tokens"}, {"side", output.side}, {"rows", std::move(rows)}, {"totals", output.totals}};
  if (output.is_masked) json["masked"] = true;
  return json;
}

Json stack_json(const StackArithmetic& stack) {
  Json json{{"name", stack.name},
            {"layers", stack.layers},
            {"normFirst", stack.is_norm_first},
            {"norm", stack.is_rms ? "rms" : "layer"},
            {"eps", stack.eps},
            {"activation", stack.activation},
            {"gated", stack.is_gated},
            {"finalNorm", stack.has_final_norm},
            {"positions", stack.positions},
            {"embeddingScale", stack.embedding_scale},
            {"embeddingNorm", stack.embedding_norm}};
  if (stack.rotary) {
    json["rotary"] = {{"frequencies", stack.rotary->frequencies}, {"interleaved", stack.rotary->is_interleaved}};
  }
  if (stack.query_norm_eps) json["queryNormEps"] = *stack.query_norm_eps;
  return json;
}

Json arithmetic_json(const Arithmetic& arithmetic) {
  Json stacks = Json::array();
  for (const StackArithmetic& stack : arithmetic.stacks) stacks.push_back(stack_json(stack));
  return {{"stacks", std::move(stacks)},
          {"outputScale", arithmetic.output_scale},
          {"outputBias", arithmetic.output_bias},
          {"pooling", arithmetic.pooling},
          {"pooler", arithmetic.pooler},
          {"scores", arithmetic.scores},
          {"maskedActivation", arithmetic.masked_activation},
          {"cell", arithmetic.cell},
          {"score", arithmetic.score}};
}

/// What was changed in the run, in the form of a request: the same request repeats it.
Json interventions_json(const Run& run) {
  Json heads = Json::array(), tokens = Json::array(), steer = Json::array();
  for (size_t i = 0; i < run.attention.size(); ++i) {
    for (const int64_t head : run.attention[i].off) heads.push_back({{"attention", i}, {"head", head}});
  }
  for (const AblatedToken& token : run.hidden_tokens) tokens.push_back({{"side", token.side}, {"index", token.index}});
  for (const Steering& one : run.steer) {
    steer.push_back({{"point", one.point}, {"toward", one.toward}, {"away", one.away}, {"strength", one.strength}});
  }
  return {{"ablate", {{"heads", std::move(heads)}, {"tokens", std::move(tokens)}}}, {"steer", std::move(steer)}};
}

Json picture_json(const RunPicture& picture) {
  std::string data = "data:image/png;base64,";
  const std::string png = encode_png(picture.image);
  append_base64(data, std::as_bytes(std::span(png)));
  return {{"rows", picture.rows}, {"columns", picture.columns}, {"data", std::move(data)}};
}

}  // namespace

Json token_json(const ShownToken& token) {
  return {{"id", token.id},       {"text", token.text}, {"space", token.space}, {"kind", name_of(token.kind)},
          {"start", token.start}, {"end", token.end},   {"word", token.word}};
}

Json candidate_json(const ShownCandidate& candidate) {
  return {{"id", candidate.token.id}, {"text", candidate.token.text}, {"p", candidate.probability}};
}

Json side_json(const RunSide& side) {
  Json tokens = Json::array();
  for (const ShownToken& token : side.tokens) tokens.push_back(token_json(token));
  Json json{{"name", side.name}, {"text", side.text}, {"tokens", std::move(tokens)}};
  if (side.picture) json["picture"] = picture_json(*side.picture);
  return json;
}

Json attention_json(const RunAttention& attention, int64_t index) {
  const AttentionTrace& trace = attention.trace;
  return {{"index", index},
          {"path", trace.path},
          {"stack", attention.stack},
          {"layer", attention.layer},
          {"kind", attention.is_cross ? "cross" : "self"},
          {"causal", trace.options.causal},
          {"window", trace.options.window},
          {"softcap", trace.options.softcap},
          {"bias", trace.options.alibi  ? "alibi"
                   : trace.options.bias ? "relative"
                                        : "none"},
          {"score", attention.additive ? "additive" : "dot"},
          {"heads", attention.heads()},
          {"key_heads", trace.k.dim(1)},
          {"head_dim", trace.q.dim(3)},
          {"value_dim", trace.v.dim(3)},
          {"scale", attention.scale()},
          {"querySide", attention.query_side},
          {"keySide", attention.key_side},
          {"queries", attention.queries()},
          {"keys", attention.keys()},
          {"off", attention.off}};
}

Json run_json(const Run& run) {
  Json sides = Json::array(), attention = Json::array(), values = Json::array(), parameters = Json::array();
  for (const RunSide& side : run.sides) sides.push_back(side_json(side));
  for (size_t i = 0; i < run.attention.size(); ++i) {
    attention.push_back(attention_json(run.attention[i], static_cast<int64_t>(i)));
  }
  for (const auto& [name, tensor] : run.values) values.push_back(name);
  for (const auto& [name, tensor] : run.parameters) parameters.push_back(name);
  return {{"sides", std::move(sides)},
          {"attention", std::move(attention)},
          {"values", std::move(values)},
          {"parameters", std::move(parameters)},
          {"arithmetic", arithmetic_json(run.arithmetic)},
          {"output", output_json(run.output)},
          {"interventions", interventions_json(run)},
          {"milliseconds", run.milliseconds}};
}

Json heads_json(const Run& run) {
  Json heads = Json::array();
  for (const HeadFigures& figures : head_figures(run)) {
    heads.push_back({{"attention", figures.attention},
                     {"head", figures.head},
                     {"entropy", figures.entropy},
                     {"distance", figures.distance},
                     {"peak", figures.peak}});
  }
  return {{"heads", std::move(heads)}};
}

Json stats_json(const Run& run, int64_t attention, int64_t head) {
  const auto summary = head_summary(run, attention, head);
  return {{"entropy", summary->entropy}, {"rowTotals", summary->row_totals}, {"columnTotals", summary->column_totals}};
}

Json alignment_json(const WordAlignment& alignment) {
  Json links = Json::array();
  for (const auto& [source, target] : alignment.links) links.push_back(Json::array({source, target}));
  return {{"source", alignment.source},
          {"target", alignment.target},
          {"weights", alignment.weights},
          {"links", std::move(links)}};
}

Json model_json(const Model& model, const std::string& id, const std::string& name, const ModelExample& example,
                int64_t beam) {
  int64_t parameters = 0;
  for (const auto& [parameter, tensor] : model.parameters()) parameters += tensor.numel();
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  const auto* image = dynamic_cast<const ImageModel*>(&model);
  const std::vector<std::string> none;
  return {{"id", id},
          {"name", name},
          {"architecture", model.architecture()},
          {"kind", name_of(model.kind())},
          {"vocab_size", model.vocab_size()},
          {"context", model.context()},
          {"parameters", parameters},
          {"beam", beam},
          {"example", {{"text", example.text}, {"target", example.target ? Json(*example.target) : Json(nullptr)}}},
          {"labels", encoder ? encoder->labels()
                     : image ? image->labels()
                             : none}};
}

std::string json_text(const Json& json) { return json.dump(); }

}  // namespace attend
