// POST /classify, POST /tokenize and POST /detokenize
#include <algorithm>

#include "generate/classify_read.h"
#include "serve/text_work.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 2048;

/// The texts of a request and their labels so far.
class ClassificationWork final : public TextWork {
 public:
  ClassificationWork(std::shared_ptr<ModelEntry> model, const EncoderModel& encoder,
                     std::vector<ClassifierInput> inputs)
      : model_(std::move(model)),
        encoder_(encoder),
        labels_(encoder.labels()),
        inputs_(std::move(inputs)),
        queue_(lengths_of(inputs_)),
        longest_(queue_.longest()),
        results_(inputs_.size()) {}

  int64_t longest() const override { return longest_; }
  const char* text_field() const override { return "text"; }

  Piece read(int64_t tokens) override {
    const std::span<const size_t> places = queue_.take(tokens);
    std::vector<ClassifierInput> batch;
    for (const size_t place : places) batch.push_back(std::move(inputs_[place]));
    const std::vector<Classified> classified = classify_read(encoder_, batch, std::max<int64_t>(tokens, 1));
    Piece piece{.is_done = queue_.is_empty()};
    for (size_t i = 0; i < places.size(); ++i) {
      piece.tokens += classified[i].tokens;
      results_[places[i]] = result(classified[i]).dump();
    }
    return piece;
  }

  std::string answer() override {
    return R"({"model":)" + Json(model_->own.name).dump() + R"(,"results":)" + json_array(results_) + '}';
  }

 private:
  Json result(const Classified& one) const {
    Json scores = Json::object();
    for (size_t i = 0; i < one.scores.size(); ++i) scores[labels_[i]] = one.scores[i];
    const bool has_label = one.label >= 0;
    return {{"label", has_label ? Json(labels_[static_cast<size_t>(one.label)]) : Json()},
            {"score", has_label ? Json(one.scores[static_cast<size_t>(one.label)]) : Json()},
            {"scores", std::move(scores)},
            {"truncated", one.is_cut}};
  }

  std::shared_ptr<ModelEntry> model_;
  const EncoderModel& encoder_;
  std::vector<std::string> labels_;
  std::vector<ClassifierInput> inputs_;
  TextQueue queue_;
  int64_t longest_;
  std::vector<std::string> results_;  // as JSON
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
  const std::shared_ptr<ModelEntry> model = context.model(fields);
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model->model());
  if (encoder == nullptr || encoder->labels().empty()) fields.fail("model", "does not classify texts");
  std::vector<std::string> texts = fields.texts("text", kMostTexts);
  if (texts.empty()) fields.fail("text", "is missing");
  const std::vector<std::string> second = fields.texts("second", kMostTexts);
  fields.refuse_others();
  if (!second.empty() && second.size() != texts.size()) fields.fail("second", "must have as many texts as 'text'");
  if (!second.empty() && !may_compare(*model, *encoder))
    fields.fail("second", "is not for a classifier of single texts");
  std::vector<ClassifierInput> inputs;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (second.empty()) {
      inputs.push_back(read_text(*encoder, model->tokenizer(), texts[i]));
      if (inputs.back().ids.empty())
        fields.fail("text", "has a blank text" + (texts.size() > 1 ? " at index " + std::to_string(i) : ""));
      continue;
    }
    std::ranges::replace(texts[i], '\t', ' ');  // a tab separates the texts of a pair
    inputs.push_back(read_pair(*encoder, model->tokenizer(), texts[i] + '\t' + second[i]));
  }
  submit_work(model, request, {}, responder, std::make_shared<ClassificationWork>(model, *encoder, std::move(inputs)));
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
