// POST /v1/completions
#include <algorithm>

#include "serve/model_routes.h"

namespace attend {
namespace {

constexpr size_t kMostPrompts = 256;
constexpr int64_t kUsualTokens = 16;  // as OpenAI documents

class CompletionShape final : public AnswerShape {
 public:
  explicit CompletionShape(std::shared_ptr<ModelEntry> model) : model_(std::move(model)) {}

  const char* id_prefix() const override { return "cmpl-"; }
  const char* object(bool) const override { return "text_completion"; }

  Json choice(const TextPart& part, bool, const ShapeOptions& options) const override {
    Json result{{"text", part.text},
                {"index", part.index},
                {"logprobs", options.has_logprobs ? logprobs(part) : Json()},
                {"finish_reason", part.finish != nullptr ? Json(part.finish) : Json()}};
    if (options.has_look) result["attend"] = looks_json(part, model_->tokenizer());
    if (options.has_ids) add_ids(result, part);
    return result;
  }

 private:
  /// The alternatives of a token with their log-probabilities, and the token itself if it is not among them.
  Json likeliest(const TokenRecord& token, const std::string& own) const {
    Json result = Json::object();
    for (const auto& [id, value] : token.top) {
      std::string name = id == token.id ? own : token_name(model_->tokenizer(), id);
      // Tokens with the same text, such as "A" and SentencePiece's byte <0x41>, differ in their spelling.
      const bool is_taken = id != token.id && (name == own || result.contains(name));
      if (is_taken && id < model_->tokenizer().size()) name = model_->tokenizer().token(id);
      if (!is_taken || (name != own && !result.contains(name))) result[name] = value;
    }
    if (!result.contains(own)) result[own] = token.log_probability;
    return result;
  }

  Json logprobs(const TextPart& part) const {
    Json tokens = Json::array(), values = Json::array(), alternatives = Json::array(), offsets = Json::array();
    for (const TokenRecord& token : part.tokens) {
      tokens.push_back(token_name(model_->tokenizer(), token.id));
      values.push_back(token.has_log_probability ? Json(token.log_probability) : Json());
      alternatives.push_back(token.has_log_probability ? likeliest(token, tokens.back().string()) : Json());
      offsets.push_back(token.offset);
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(values)},
            {"top_logprobs", std::move(alternatives)},
            {"text_offset", std::move(offsets)}};
  }

  std::shared_ptr<ModelEntry> model_;
};

/// A string, an array of strings, an array of token ids, or an array of such arrays.
std::vector<PreparedPrompt> read_prompts(RequestFields& fields, const ModelEntry& model,
                                         std::optional<int64_t> max_tokens) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) fields.fail("prompt", "is missing");
  std::vector<PreparedPrompt> result;
  const auto add_text = [&](const Json& text) {
    result.push_back(prepare_prompt(model, text.string(), {}, max_tokens));
  };
  const auto add_ids = [&](const Json& list) {
    std::vector<int32_t> ids = fields.ids("prompt", list, model.vocabulary.size);
    const std::string text = model.tokenizer().decode(ids);
    result.push_back(prepare_prompt(model, text, std::move(ids), max_tokens));
  };
  if (prompt->is_string()) {
    add_text(*prompt);
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_number()) {
    add_ids(*prompt);
  } else if (prompt->is_array() && prompt->size() >= 1 && prompt->size() <= kMostPrompts) {
    for (const Json& item : *prompt) {
      if (!item.is_string() && !item.is_array()) fields.fail("prompt", "must have strings or arrays of token ids");
      item.is_string() ? add_text(item) : add_ids(item);
    }
  } else {
    fields.fail("prompt", "must be a string, an array of token ids, or an array of 1 to 256 of these");
  }
  return result;
}

}  // namespace

void answer_completions(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const std::shared_ptr<ModelEntry> model = context.model(fields);
  if (!model->writes()) fields.fail("model", "does not generate text");
  GenerationSettings settings = read_generation(fields, *model);
  settings.logprobs = fields.whole("logprobs", 0, kMostLogprobs);
  settings.echoes = fields.flag("echo").value_or(false);
  if (settings.echoes && model->is_pair()) fields.fail("echo", "is not supported by translation models");
  const bool is_open = model->is_pair() || settings.max_tokens;
  std::vector<PreparedPrompt> prompts =
      read_prompts(fields, *model, is_open ? settings.max_tokens : std::optional(kUsualTokens));
  fields.refuse_others();
  auto shape = std::make_unique<CompletionShape>(model);
  submit(context,
         {.model = model,
          .settings = std::move(settings),
          .prompts = std::move(prompts),
          .shape = std::move(shape),
          .version = {}},
         request, responder);
}

}  // namespace attend
