// POST /v1/chat/completions
#include <algorithm>
#include <array>

#include "attend/chat/chat_template.h"
#include "io/printable.h"
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

/// The messages of a request, checked, as templates read them.
class Messages {
 public:
  Messages(const RequestFields& fields, const ChatTemplate& chat) : fields_(fields), chat_(chat) {}

  Json read(const Json& messages) {
    Json result = Json::array();
    for (const Json& message : messages) {
      at_ = "messages[" + std::to_string(result.size()) + "]";
      const auto role = message.find("role");
      if (!message.is_object() || role == message.end() || !role->is_string()) {
        fields_.fail("messages", "must have objects with 'role' and 'content'");
      }
      result.push_back(read_one(message, role->string()));
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const char* field, const std::string& problem) const {
    fields_.fail(at_ + "." + field, problem);
  }

  Json read_one(const Json& message, const std::string& role) const {
    constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};
    if (std::ranges::find(kRoles, role) == kRoles.end()) {
      fail("role", "must be system, developer, user, assistant or tool, got " + in_quotes(role));
    }
    Json own = Json::object();
    for (const auto& [name, value] : message.items()) {
      const bool is_empty_list = name == "tool_calls" && (value.is_null() || (value.is_array() && value.empty()));
      if (!is_empty_list) own[name] = value;
    }
    if (role == "developer" && !knows_developer()) own["role"] = "system";
    const bool has_calls = own.contains("tool_calls");
    if (has_calls && role != "assistant") fail("tool_calls", "are only for the role assistant");
    if (has_calls) own["tool_calls"] = read_calls(own.at("tool_calls"));
    const bool has_content = own.contains("content") && !own.at("content").is_null();
    if (!has_content && !has_calls) fail("content", "is missing");
    if (has_content) own["content"] = text_of(own.at("content"));
    if (role == "tool" && (!own.contains("tool_call_id") || !own.at("tool_call_id").is_string())) {
      fail("tool_call_id", "is missing: a tool's message must name the call that it answers");
    }
    return own;
  }

  /// Whether the template reads OpenAI's newer name of the role "system".
  bool knows_developer() const {
    const std::string& source = chat_.source();
    return source.find("'developer'") != std::string::npos || source.find("\"developer\"") != std::string::npos;
  }

  /// The text of a message: a string, or an array of parts of type "text".
  std::string text_of(const Json& content) const {
    if (content.is_string()) return content.string();
    if (!content.is_array() || content.empty()) fail("content", "must be a string or an array of parts");
    std::string text;
    for (const Json& part : content) {
      const auto type = part.find("type"), own = part.find("text");
      const bool is_text = part.is_object() && type != part.end() && type->is_string() && type->string() == "text" &&
                           own != part.end() && own->is_string();
      if (!is_text) fields_.fail("messages", "may have only parts of type \"text\"");
      text += own->string();
    }
    return text;
  }

  /// The calls of an earlier answer: templates read arguments as an object, not as its text.
  Json read_calls(Json calls) const {
    if (!calls.is_array()) fields_.fail("messages", "must have 'tool_calls' that are an array");
    for (Json& call : calls) {
      const bool has_function = call.is_object() && call.contains("function") && call.at("function").is_object();
      if (!has_function) fields_.fail("messages", "must have 'tool_calls' with a 'function'");
      Json& function = call["function"];
      if (!function.contains("arguments") || !function.at("arguments").is_string()) continue;
      const Json arguments = Json::parse_or_null(function.at("arguments").string());
      if (arguments.is_object()) function["arguments"] = arguments;
    }
    return calls;
  }

  const RequestFields& fields_;
  const ChatTemplate& chat_;
  std::string at_;  // the current message
};

Json read_messages(RequestFields& fields, const ChatTemplate& chat) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty() || messages->size() > kMostMessages) {
    fields.fail("messages", "must be an array of 1 to 4096 messages");
  }
  return Messages(fields, chat).read(*messages);
}

/// Further variables of the template.
Json read_variables(RequestFields& fields) {
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return Json::object();
  if (!variables->is_object()) fields.fail("chat_template_kwargs", "must be an object");
  for (const char* own : {"messages", "tools", "add_generation_prompt"}) {
    if (variables->contains(own)) fields.fail("chat_template_kwargs", std::string("may not have '") + own + "'");
  }
  return *variables;
}

void read_logprobs(RequestFields& fields, GenerationSettings& settings) {
  const bool has_logprobs = fields.flag("logprobs").value_or(false);
  const auto top = fields.whole("top_logprobs", 0, kMostLogprobs);
  if (top && !has_logprobs) fields.fail("top_logprobs", "requires 'logprobs': true");
  if (has_logprobs) settings.logprobs = top.value_or(0);
}

PreparedPrompt read_conversation(RequestFields& fields, const ModelEntry& model, const GenerationSettings& settings) {
  ChatInput input{.messages = read_messages(fields, *model.own.chat)};
  if (settings.tools.choice != ToolChoice::none) input.tools = *fields.find("tools");
  input.extra = read_variables(fields);
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
