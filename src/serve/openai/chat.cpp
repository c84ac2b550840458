// POST /v1/chat/completions
#include <algorithm>

#include "attend/chat/chat_template.h"
#include "serve/model_routes.h"

namespace attend {
namespace {

constexpr size_t kMostMessages = 4096;

class ChatShape final : public AnswerShape {
 public:
  explicit ChatShape(std::shared_ptr<ModelEntry> model) : model_(std::move(model)) {}

  const char* id_prefix() const override { return "chatcmpl-"; }
  const char* object(bool is_chunk) const override { return is_chunk ? "chat.completion.chunk" : "chat.completion"; }

  Json opening(int64_t index) const override {
    return {{"index", index},
            {"delta", {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  Json choice(const TextPart& part, bool is_chunk, const ShapeOptions& options) const override {
    Json result{{"index", part.index}};
    if (is_chunk) {
      result["delta"] = part.text.empty() ? Json::object() : Json{{"content", part.text}};
      if (!part.calls.empty()) result["delta"]["tool_calls"] = calls(part, true);
    } else {
      const bool is_call = part.text.empty() && !part.calls.empty();
      result["message"] = {
          {"role", "assistant"}, {"content", is_call ? Json() : Json(part.text)}, {"refusal", nullptr}};
      if (!part.calls.empty()) result["message"]["tool_calls"] = calls(part, false);
    }
    result["logprobs"] = options.has_logprobs ? Json{{"content", logprobs(part)}, {"refusal", nullptr}} : Json();
    result["finish_reason"] = part.finish != nullptr ? Json(part.finish) : Json();
    if (options.has_look) result["attend"] = looks_json(part, model_->tokenizer());
    if (options.has_ids) add_ids(result, part);
    return result;
  }

 private:
  static Json calls(const TextPart& part, bool is_chunk) {
    Json result = Json::array();
    for (const ToolCall& call : part.calls) {
      Json one = Json::object();
      if (is_chunk) one["index"] = part.first_call + static_cast<int64_t>(result.size());
      one["id"] = call.id;
      one["type"] = "function";
      one["function"] = {{"name", call.name}, {"arguments", call.arguments}};
      result.push_back(std::move(one));
    }
    return result;
  }

  Json token(int32_t id, double log_probability) const {
    const TokenText shown = token_text(model_->tokenizer(), id);
    Json bytes = Json::array();
    for (const char byte : shown.bytes) bytes.push_back(static_cast<unsigned>(static_cast<unsigned char>(byte)));
    return {{"token", shown.text}, {"logprob", log_probability}, {"bytes", std::move(bytes)}};
  }

  Json logprobs(const TextPart& part) const {
    Json result = Json::array();
    for (const TokenRecord& record : part.tokens) {
      Json one = token(record.id, record.log_probability), top = Json::array();
      for (const auto& [id, value] : record.top) top.push_back(token(id, value));
      one["top_logprobs"] = std::move(top);
      result.push_back(std::move(one));
    }
    return result;
  }

  std::shared_ptr<ModelEntry> model_;
};

/// The text of a message: a string, or an array of parts of type "text".
Json text_of(const RequestFields& fields, const Json& content) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) fields.fail("messages", "must have a 'content' that is a string or an array of parts");
  std::string text;
  for (const Json& part : content) {
    const auto type = part.find("type"), own = part.find("text");
    const bool is_text = part.is_object() && type != part.end() && type->is_string() && type->string() == "text" &&
                         own != part.end() && own->is_string();
    if (!is_text) fields.fail("messages", "may have only parts of type \"text\"");
    text += own->string();
  }
  return text;
}

/// The calls of an earlier answer, as templates read them: arguments are an object, not its text.
Json read_calls(const RequestFields& fields, Json calls) {
  if (!calls.is_array()) fields.fail("messages", "must have 'tool_calls' that are an array");
  for (Json& call : calls) {
    const bool has_function = call.is_object() && call.contains("function") && call.at("function").is_object();
    if (!has_function) fields.fail("messages", "must have 'tool_calls' with a 'function'");
    Json& function = call["function"];
    if (!function.contains("arguments") || !function.at("arguments").is_string()) continue;
    const Json arguments = Json::parse_or_null(function.at("arguments").string());
    if (arguments.is_object()) function["arguments"] = arguments;
  }
  return calls;
}

Json read_messages(RequestFields& fields) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty() || messages->size() > kMostMessages) {
    fields.fail("messages", "must be an array of 1 to 4096 messages");
  }
  Json result = Json::array();
  for (const Json& message : *messages) {
    const auto role = message.find("role");
    if (!message.is_object() || role == message.end() || !role->is_string()) {
      fields.fail("messages", "must have objects with 'role' and 'content'");
    }
    Json own = message;
    if (role->string() == "developer") own["role"] = "system";  // OpenAI's newer name
    if (message.contains("content")) own["content"] = text_of(fields, message.at("content"));
    if (message.contains("tool_calls")) own["tool_calls"] = read_calls(fields, message.at("tool_calls"));
    result.push_back(std::move(own));
  }
  return result;
}

void read_logprobs(RequestFields& fields, GenerationSettings& settings) {
  const bool has_logprobs = fields.flag("logprobs").value_or(false);
  const auto top = fields.whole("top_logprobs", 0, kMostLogprobs);
  if (top && !has_logprobs) fields.fail("top_logprobs", "requires 'logprobs': true");
  if (has_logprobs) settings.logprobs = top.value_or(0);
}

PreparedPrompt read_conversation(RequestFields& fields, const ModelEntry& model, const GenerationSettings& settings) {
  ChatInput input{.messages = read_messages(fields)};
  if (settings.tools.choice != ToolChoice::none) input.tools = *fields.find("tools");
  if (const Json* extra = fields.find("chat_template_kwargs")) {
    if (!extra->is_object()) fields.fail("chat_template_kwargs", "must be an object");
    input.extra = *extra;
  }
  fields.refuse_others();
  try {
    // The template writes the special tokens itself.
    const std::string text = model.own.chat->render(input);
    std::vector<int32_t> ids = model.tokenizer().encode(text);
    if (ids.empty()) fields.fail("messages", "have no text");
    return prepare_prompt(model, text, std::move(ids), settings.max_tokens);
  } catch (const RequestError& error) {
    throw RequestError(error.status, error.what(), "messages", error.code);
  } catch (const FormatError& error) {
    throw RequestError(400, std::string("the model's chat template: ") + error.what(), "messages");
  }
}

}  // namespace

void answer_chat(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const std::shared_ptr<ModelEntry> model = context.model(fields);
  if (model->model().kind() != ModelKind::language) fields.fail("model", "is not a language model");
  if (!model->own.chat) fields.fail("model", "has no chat template; use /v1/completions");
  GenerationSettings settings = read_generation(fields, *model);
  const auto newer = fields.whole("max_completion_tokens", 0, INT32_MAX);  // OpenAI's newer name
  if (newer && settings.max_tokens) fields.fail("max_completion_tokens", "cannot be combined with 'max_tokens'");
  if (newer) settings.max_tokens = newer;
  read_logprobs(fields, settings);
  read_tool_fields(fields, *model, settings);
  PreparedPrompt prompt = read_conversation(fields, *model, settings);
  auto shape = std::make_unique<ChatShape>(model);
  submit(context,
         {.model = model,
          .settings = std::move(settings),
          .prompts = {std::move(prompt)},
          .shape = std::move(shape),
          .version = {}},
         request, responder);
}

}  // namespace attend
