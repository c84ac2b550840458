#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "attend/base/error.h"
#include "attend/io/json.h"

namespace attend {

/// The template itself refused the conversation with raise_exception(). what() is the template's message.
struct TemplateRefusal : FormatError {
  using FormatError::FormatError;
};

/// Limits of one rendering. Beyond them render() throws a FormatError.
struct ChatTemplateLimits {
  int64_t steps = 20'000'000;                ///< evaluated expressions, loop rounds and items; about two seconds
  int64_t bytes = int64_t{1} << 30;          ///< total size of all values that are made
  int64_t value_bytes = int64_t{64} << 20;   ///< size of one value
  int64_t output_bytes = int64_t{64} << 20;  ///< size of the rendered text
  int depth = 1200;                          ///< nested evaluations, such as a macro that calls itself
};

struct ChatTemplateOptions {
  Json special_tokens = Json::object();  ///< variables such as {"bos_token": "<s>"}
  ChatTemplateLimits limits;
};

/// One conversation, as variables of the template.
struct ChatInput {
  Json messages = Json::array();      ///< [{"role": "user", "content": "…"}, …]
  Json tools;                         ///< JSON schemas of functions, or null
  bool add_generation_prompt = true;  ///< end with the beginning of the assistant's next message
  Json extra = Json::object();        ///< further variables, such as {"enable_thinking": false}
  std::optional<std::tm> now;         ///< the time that strftime_now() reads; default: the current local time
};

/// A chat template of a Hugging Face model: renders messages as the text that the model was trained on. Templates are
/// written in Jinja; this renderer prints the same text as transformers' apply_chat_template. A template is untrusted
/// input: it can compute, within limits, but reach nothing except the given variables. Immutable and thread-safe.
///
///   const ChatTemplate chat("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}");
///   chat.render({.messages = Json::parse(R"([{"role": "user", "content": " Hello "}])")});  // <user>Hello
class ChatTemplate {
 public:
  /// Parses a template. Throws a FormatError with the line for a malformed or unsupported template.
  explicit ChatTemplate(std::string source, ChatTemplateOptions options = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The text of a conversation. Throws TemplateRefusal if the template refuses the conversation, and a FormatError
  /// with the line for other errors.
  std::string render(const ChatInput& input) const;

  const std::string& source() const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

/// The chat template of a model folder, with the special tokens of its tokenizer_config.json. Reads
/// chat_template.jinja, chat_template.json or the chat_template of tokenizer_config.json, in this order. Where a folder
/// has several templates (such as "default" and "tool_use"), `name` chooses one. nullopt if the folder has no chat
/// template. Throws a FormatError that names the file.
std::optional<ChatTemplate> chat_template_of(const std::string& folder, std::string_view name = "default");

/// Reads a template from a file of Jinja text, with the special tokens of the model in `folder`. Throws a FormatError
/// that names the file.
ChatTemplate read_chat_template(const std::string& file, const std::string& folder);

}  // namespace attend
