#include "cli/chat_session.h"

#include <algorithm>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::cli {
namespace {

bool calls_tool(const Json& message) {
  const auto calls = message.find("tool_calls");
  return message["role"].string() == "assistant" && calls != message.end() && calls->is_array() && !calls->empty();
}

/// What is wrong with a message on its own, or "".
std::string fault_of(const Json& message) {
  if (!message.is_object()) return std::string("expected an object with role and content, got ") + message.type_name();
  const auto role = message.find("role");
  if (role == message.end()) return "role is missing";
  if (!role->is_string()) return std::string("role must be a string, not ") + role->type_name();
  const std::string& name = role->string();
  if (name != "system" && name != "user" && name != "assistant" && name != "tool") {
    return "role must be system, user, assistant or tool, not " + in_quotes(name);
  }
  const auto content = message.find("content");
  if (calls_tool(message) && (content == message.end() || content->is_null())) return "";
  if (content == message.end()) return "content is missing";
  if (!content->is_string()) return std::string("content must be a string, not ") + content->type_name();
  return "";
}

/// Throws FormatError unless the user and the assistant take turns, after an optional system message, and the
/// assistant has the last word.
void check_conversation(const Json& list) {
  require<FormatError>(list.is_array(), "expected a JSON list of messages");
  std::string expected = "system or user";  // the next role
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string fault = fault_of(list[i]);
    require<FormatError>(fault.empty(), "message ", i + 1, ": ", fault);
    const std::string& role = list[i]["role"].string();
    require<FormatError>(expected.find(role) != std::string::npos, "message ", i + 1, ": expected role ", expected,
                         ", got ", role);
    if (role == "system") {
      expected = "user";
    } else if (role == "assistant") {
      expected = calls_tool(list[i]) ? "tool" : "user";
    } else {
      expected = role == "user" ? "assistant" : "assistant or tool";
    }
  }
  require<FormatError>(expected.find("user") != std::string::npos, "message ", list.size(),
                       " is the last one, but an answer (role assistant) must follow it");
}

}  // namespace

Json ChatSession::messages() const {
  Json result = Json::array();
  if (!system_.empty()) result.push_back({{"role", "system"}, {"content", system_}});
  for (const Json& turn : turns_) result.push_back(turn);
  return result;
}

void ChatSession::set_messages(const Json& messages) {
  const bool is_wrapped = messages.is_object() && messages.contains("messages");
  const Json& list = is_wrapped ? messages.at("messages") : messages;
  check_conversation(list);
  const bool has_system = !list.empty() && list[0]["role"].string() == "system";
  system_ = has_system ? list[0]["content"].string() : "";
  turns_ = Json::array();
  for (size_t i = has_system ? 1 : 0; i < list.size(); ++i) turns_.push_back(list[i]);
}

/// The tokens of the conversation. As in transformers, the template adds the special tokens, and the names of special
/// tokens in the text become these tokens.
std::vector<int32_t> ChatSession::prompt() const {
  const ChatInput input{
      .messages = messages(), .tools = {}, .add_generation_prompt = true, .extra = setting_.variables, .now = {}};
  std::vector<int32_t> ids = setting_.tokenizer.encode(setting_.chat.render(input));
  require<FormatError>(!ids.empty(), "the chat template gives no tokens for this conversation");
  const int64_t context = setting_.model.context();
  require<FormatError>(std::ssize(ids) < context, "this message was not sent: the conversation has ", ids.size(),
                       " tokens with it, but the context of the model holds ", context,
                       "; shorten it, or /save FILE keeps the conversation and /reset starts a new one");
  return ids;
}

ChatSession::Answer ChatSession::ask(const std::string& question, const OnText& on_text) {
  Json before = turns_;
  turns_.push_back({{"role", "user"}, {"content", question}});
  try {
    const std::vector<int32_t> ids = prompt();
    GenerateOptions options = setting_.options;
    const int64_t room = setting_.model.context() - std::ssize(ids);
    const int64_t wanted = options.tokens.value_or(options.rules.max_new > 0 ? options.rules.max_new : room);
    options.tokens = std::min(wanted, room);
    options.first_index = questions_++;
    Answer answer{.generated =
                      generate_from_ids(setting_.model, setting_.tokenizer, std::span(&ids, 1), options, on_text)[0]};
    answer.is_context_full = answer.generated.ending == Ending::length && wanted >= room;
    turns_.push_back({{"role", "assistant"}, {"content", answer.generated.text}});
    return answer;
  } catch (...) {
    turns_ = std::move(before);
    throw;
  }
}

}  // namespace attend::cli
