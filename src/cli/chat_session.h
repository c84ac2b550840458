#pragma once

#include <string>

#include "attend/chat/chat_template.h"
#include "attend/generate/generate_text.h"
#include "attend/io/json.h"

namespace attend::cli {

/// A conversation with a language model.
class ChatSession {
 public:
  struct Setting {
    const LanguageModel& model;
    const Tokenizer& tokenizer;
    const ChatTemplate& chat;
    GenerateOptions options;          ///< tokens: maximum for each answer; default: what the context holds
    Json variables = Json::object();  ///< further variables of the template
  };
  struct Answer {
    GeneratedText generated;
    bool is_context_full = false;  ///< the answer was cut because the context is full
  };

  ChatSession(Setting setting, std::string system) : setting_(std::move(setting)), system_(std::move(system)) {}

  /// Asks the model. Each piece of the answer goes to `on_text`, which may end the answer by returning false. The
  /// question and the answer, or the part of it that was generated, become part of the conversation. Throws FormatError
  /// if the template refuses the conversation or it does not fit the context; the conversation is then as before.
  Answer ask(const std::string& question, const OnText& on_text);

  void reset() { turns_ = Json::array(); }
  const std::string& system() const { return system_; }
  void set_system(std::string system) { system_ = std::move(system); }
  size_t turns() const { return turns_.size(); }

  /// The system message, if any, and all turns.
  Json messages() const;
  /// Replaces the conversation by a list of {"role", "content"}, or by such a list under "messages" of an object.
  /// Throws FormatError, which names the message by its number from 1, unless the list is a conversation that ends with
  /// an answer; the conversation is then as before.
  void set_messages(const Json& messages);

 private:
  std::vector<int32_t> prompt() const;

  Setting setting_;
  std::string system_;
  Json turns_ = Json::array();
  int64_t questions_ = 0;  ///< asked so far, for the random draws
};

}  // namespace attend::cli
