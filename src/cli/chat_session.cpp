#include "cli/chat_session.h"

#include <algorithm>

#include "attend/base/error.h"

namespace attend::cli {

Json ChatSession::messages() const {
  Json result = Json::array();
  if (!system_.empty()) result.push_back({{"role", "system"}, {"content", system_}});
  for (const Json& turn : turns_) result.push_back(turn);
  return result;
}

void ChatSession::set_messages(const Json& messages) {
  const bool is_wrapped = messages.is_object() && messages.contains("messages");
  const Json& list = is_wrapped ? messages.at("messages") : messages;
  require<FormatError>(list.is_array(), "expected a JSON list of messages");
  for (const Json& message : list) {
    require<FormatError>(message.is_object() && message.contains("role") && message["role"].is_string(),
                         "each message needs a role");
  }
  const bool has_system = !list.empty() && list[0]["role"].string() == "system" && list[0].contains("content") &&
                          list[0]["content"].is_string();
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
  require<FormatError>(std::ssize(ids) < context, "the conversation has ", ids.size(),
                       " tokens, but the context of the model holds ", context,
                       "; /save FILE keeps it, /reset starts a new one");
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
