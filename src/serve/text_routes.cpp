// POST /classify, POST /tokenize and POST /detokenize
#include <algorithm>

#include "attend/generate/classify.h"
#include "serve/model_routes.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 2048, kTextsAtOnce = 32;

/// The texts of a request and their labels so far.
struct ClassificationWork {
  std::shared_ptr<ModelEntry> model;
  std::vector<std::string> texts;
  bool are_pairs = false;
  Json results = Json::array();
  size_t done = 0;

  const EncoderModel& encoder() const { return dynamic_cast<const EncoderModel&>(model->model()); }

  /// Classifies some texts. Null if there are more.
  Json compute() {
    const size_t count = std::min(kTextsAtOnce, texts.size() - done);
    const auto some = std::span(texts).subspan(done, count);
    const std::vector<std::string> labels = encoder().labels();
    for (const Classified& one : are_pairs ? classify_pairs(encoder(), model->tokenizer(), some)
                                           : classify(encoder(), model->tokenizer(), some)) {
      model->metrics.prompt_tokens += one.tokens;
      Json scores = Json::object();
      for (size_t i = 0; i < one.scores.size(); ++i) scores[labels[i]] = one.scores[i];
      const bool has_label = one.label >= 0;
      if (!has_label && texts.size() > 1) {
        throw RequestError(400, "'text' has a blank text at index " + std::to_string(results.size()), "text");
      }
      if (!has_label) throw RequestError(400, "'text' has a blank text", "text");
      results.push_back({{"label", has_label ? Json(labels[static_cast<size_t>(one.label)]) : Json()},
                         {"score", has_label ? Json(one.scores[static_cast<size_t>(one.label)]) : Json()},
                         {"scores", std::move(scores)},
                         {"truncated", one.is_cut}});
    }
    done += count;
    if (done < texts.size()) return {};
    return {{"model", model->own.name}, {"results", std::move(results)}};
  }
};

const Tokenizer& tokenizer_of(RequestFields& fields, const ModelEntry& model) {
  if (!model.own.tokenizer) fields.fail("model", "has no tokenizer");
  return model.tokenizer();
}

/// Whether a classifier may have learnt to compare two texts. attend trains classifiers of single texts, without token
/// types; a Hugging Face model does not say what its inputs are.
bool may_compare(const ModelEntry& model, const EncoderModel& encoder) {
  return encoder.token_types() > 1 || model.own.rules.as_transformers;
}

/// The tokens that the model reads for a text.
std::vector<int32_t> framed_ids(const ModelEntry& model, const std::string& text) {
  const GenerationRules& rules = model.own.rules;
  switch (model.model().kind()) {
    case ModelKind::translation:
      return frame_source(model.tokenizer(), text, INT64_MAX, rules.prefix).ids;
    case ModelKind::language:
      return frame_prompt(model.tokenizer(), text, rules.as_transformers);
    default:
      return frame_text(model.tokenizer(), text, INT64_MAX).ids;
  }
}

/// The text of each token.
Json pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json result = Json::array();
  for (const int32_t id : ids) result.push_back(token_text(tokenizer, id).text);
  return result;
}

}  // namespace

void answer_classify(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const auto work = std::make_shared<ClassificationWork>();
  work->model = context.model(fields);
  const auto* encoder = dynamic_cast<const EncoderModel*>(&work->model->model());
  if (encoder == nullptr || encoder->labels().empty()) fields.fail("model", "does not classify texts");
  work->texts = fields.texts("text", kMostTexts);
  if (work->texts.empty()) fields.fail("text", "is missing");
  const std::vector<std::string> second = fields.texts("second", kMostTexts);
  fields.refuse_others();
  if (!second.empty() && second.size() != work->texts.size())
    fields.fail("second", "must have as many texts as 'text'");
  if (!second.empty() && !may_compare(*work->model, *encoder)) {
    fields.fail("second", "is not for a classifier of single texts");
  }
  work->are_pairs = !second.empty();
  for (size_t i = 0; i < second.size(); ++i) {
    std::ranges::replace(work->texts[i], '\t', ' ');  // a tab separates the texts of a pair
    work->texts[i] += '\t' + second[i];
  }
  compute_in_turn(work->model, request, responder, [work] { return work->compute(); });
}

void answer_tokenize(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const auto model = context.model(fields);
  const Tokenizer& tokenizer = tokenizer_of(fields, *model);
  const std::string text = fields.required_text("text");
  const bool is_framed = fields.flag("add_special").value_or(false);
  fields.refuse_others();
  const std::vector<int32_t> ids = is_framed ? framed_ids(*model, text) : tokenizer.encode(text);
  responder.send({.body = Json{{"tokens", ids}, {"pieces", pieces(tokenizer, ids)}, {"count", ids.size()}}.dump()});
}

void answer_detokenize(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const auto model = context.model(fields);
  const Tokenizer& tokenizer = tokenizer_of(fields, *model);
  const Json* tokens = fields.find("tokens");
  const bool keeps_special = fields.flag("keep_special").value_or(false);
  fields.refuse_others();
  if (tokens == nullptr || !tokens->is_array()) fields.fail("tokens", "must be an array of token ids");
  std::vector<int32_t> ids;
  for (const Json& item : *tokens) {
    if (!item.is_number_integer() || item.number() < 0 || item.number() >= static_cast<double>(tokenizer.size())) {
      fields.fail("tokens", "must have token ids from 0 to " + std::to_string(tokenizer.size() - 1));
    }
    ids.push_back(static_cast<int32_t>(item.integer()));
  }
  responder.send(
      {.body = Json{{"text", tokenizer.decode(ids, keeps_special)}, {"pieces", pieces(tokenizer, ids)}}.dump()});
}

}  // namespace attend
