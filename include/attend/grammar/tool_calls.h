#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/grammar/grammar.h"
#include "attend/io/json.h"

// Calls of functions in the texts of chat models.
namespace attend {

/// How a model writes a call.
enum class ToolFormat {
  none,
  hermes,  ///< Qwen, Hermes: <tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>, any number of them
  llama3  ///< Llama 3: {"name": …, "parameters": {…}} as the whole answer, also after <|python_tag|>; several with ;
};
/// The format that a chat template asks for.
ToolFormat tool_format(std::string_view chat_template);

struct Tool {
  std::string name;
  Json parameters;         ///< schema of its arguments
  bool is_strict = false;  ///< the arguments must follow the schema
};

enum class ToolChoice { none, automatic, required };

/// OpenAI's "tools", "tool_choice" and "parallel_tool_calls".
struct ToolRequest {
  std::vector<Tool> tools{};  ///< a named choice leaves only that tool
  ToolChoice choice = ToolChoice::none;
  bool is_parallel = true;  ///< an answer may have several calls

  std::vector<std::string> names() const;
};
/// Reads the three fields; null: absent. Throws FormatError, whose message begins with the field and a colon.
ToolRequest read_tools(const Json& tools, const Json& tool_choice, const Json& parallel_tool_calls);

/// Whether tool_grammar() returns a grammar.
bool needs_grammar(const ToolRequest& request, ToolFormat format);
/// The grammar of the answers to a request. With a required choice: calls only, whose arguments follow the schemas.
/// With an automatic choice: any text, with calls that follow the schemas of strict tools. nullopt if nothing has to be
/// enforced. Throws FormatError for a schema that is not supported, and for a required choice without a format.
std::optional<Grammar> tool_grammar(const ToolRequest& request, ToolFormat format);

struct ToolCall {
  std::string id;         ///< unique in the answer
  std::string name;       ///< of the function
  std::string arguments;  ///< JSON text of an object
};

/// Separates the calls of an answer from its text, piece by piece. Text that may belong to a call is held back until it
/// is known. White space beside a call is dropped. A malformed call is text.
class ToolCallParser {
 public:
  struct Options {
    ToolFormat format = ToolFormat::none;
    std::vector<std::string> names{};  ///< Llama 3: an object with another name is text
    bool is_parallel = true;           ///< false: calls after the first are dropped
    uint64_t seed = 0;                 ///< determines the ids of calls
  };
  struct Piece {
    std::string text;
    std::vector<ToolCall> calls;  ///< complete calls, after the text
  };

  explicit ToolCallParser(Options options) : options_(std::move(options)) {}

  Piece push(std::string_view text);
  /// The rest, at the end of the answer.
  Piece finish();
  /// Whether there was a call: the reason to finish is then "tool_calls".
  bool has_calls() const { return count_ > 0; }

 private:
  void read_hermes(Piece& piece, bool is_last);
  void read_llama3(Piece& piece, bool is_last);
  bool add_call(std::string_view json, Piece& piece, const char* key);

  Options options_;
  std::string held_;
  bool is_text_ = false;  // Llama 3: the answer is not a call
  int64_t count_ = 0;
};

}  // namespace attend
