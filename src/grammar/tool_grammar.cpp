#include <algorithm>

#include "attend/base/error.h"
#include "attend/grammar/tool_calls.h"
#include "grammar/schema_compiler.h"
#include "io/printable.h"

namespace attend {
namespace {

using grammar::JsonRules;
using grammar::RuleBuilder;
using grammar::Symbol;
using grammar::Symbols;
using grammar::operator+;

constexpr size_t kMostTools = 128;  // OpenAI's limit
constexpr std::string_view kMarker = "<tool_call>";

Tool read_tool(const Json& json) {
  require<FormatError>(json.is_object() && json.value<Json>("type", nullptr) == Json("function"),
                       "tools: expected objects of type function");
  const Json function = json.value<Json>("function", nullptr);
  require<FormatError>(function.is_object() && function.value<Json>("name", nullptr).is_string(),
                       "tools: a function must have a \"name\"");
  Tool tool{.name = function["name"].string(),
            .parameters = function.value<Json>("parameters", nullptr),
            .is_strict = function.value<Json>("strict", nullptr) == Json(true)};
  require<FormatError>(!tool.name.empty() && tool.name.size() <= 64, "tools: a name must have 1 to 64 bytes, got ",
                       in_quotes(tool.name));
  if (tool.parameters.is_null()) tool.parameters = Json{{"type", "object"}, {"properties", Json::object()}};
  require<FormatError>(tool.parameters.is_object(), "tools: \"parameters\" of ", in_quotes(tool.name),
                       " must be an object");
  return tool;
}

/// The function that tool_choice names.
std::string named_function(const Json& choice) {
  const Json function = choice.is_object() ? choice.value<Json>("function", nullptr) : Json();
  const bool is_named = function.is_object() && function.value<Json>("name", nullptr).is_string();
  require<FormatError>(is_named, "tool_choice: expected none, auto, required or a function, got ",
                       in_quotes(choice.is_string() ? choice.string() : choice.dump()));
  return function["name"].string();
}

void choose(ToolRequest& request, const Json& choice) {
  request.choice = request.tools.empty() ? ToolChoice::none : ToolChoice::automatic;
  if (choice.is_null()) return;
  const std::string word = choice.is_string() ? choice.string() : "";
  if (word == "none" || word == "auto") {
    if (word == "none") request.choice = ToolChoice::none;
    return;
  }
  request.choice = ToolChoice::required;
  if (word != "required") {
    const std::string name = named_function(choice);
    std::erase_if(request.tools, [&](const Tool& tool) { return tool.name != name; });
    require<FormatError>(!request.tools.empty(), "tool_choice: the function ", in_quotes(name),
                         " is not among the tools");
    request.is_parallel = false;
  }
  require<FormatError>(!request.tools.empty(), "tool_choice: there are no tools to choose from");
}

/// Rules of the calls of a request.
class CallRules {
 public:
  CallRules(const ToolRequest& request, ToolFormat format) : request_(request), format_(format), json_(builder_) {}

  Grammar calls() {
    const bool is_hermes = format_ == ToolFormat::hermes;
    const Symbol one = call();
    const Symbol all = builder_.any_of({{one}});
    if (request_.is_parallel) builder_.add(all, Symbols{one} + builder_.text(is_hermes ? "\n" : "; ") + Symbols{all});
    return builder_.finish(builder_.any_of({{all}, {builder_.byte(' '), all}}));
  }

  /// Any text, in which each <tool_call> begins a call. State i has read the first i bytes of the marker.
  Grammar text_with_calls() {
    std::vector<Symbol> states;
    for (size_t i = 0; i < kMarker.size(); ++i) states.push_back(builder_.rule());
    for (size_t i = 0; i < kMarker.size(); ++i) {
      grammar::ByteSet others;
      others.set();
      for (const char known : {kMarker[i], kMarker[0]}) others.reset(static_cast<unsigned char>(known));
      builder_.add(states[i], {});
      builder_.add(states[i], {builder_.bytes(others), states[0]});
      if (i > 0) builder_.add(states[i], {builder_.byte(kMarker[0]), states[1]});
      if (i + 1 < kMarker.size()) builder_.add(states[i], {builder_.byte(kMarker[i]), states[i + 1]});
    }
    Symbols last{builder_.byte(kMarker.back()), rest_of_call()};
    if (request_.is_parallel) last.push_back(states[0]);
    builder_.add(states.back(), last);
    return builder_.finish(states[0]);
  }

 private:
  /// {"name": …, "arguments": …} with the arguments of that function.
  Symbol object(const Tool& tool) {
    // An automatic choice promises only what strict tools promise.
    const bool follows = tool.is_strict || request_.choice == ToolChoice::required;
    const Symbol arguments = follows ? grammar::compile_schema(json_, tool.parameters) : json_.any_object();
    const std::string key = format_ == ToolFormat::hermes ? "\"arguments\"" : "\"parameters\"";
    return builder_.any_of({Symbols{builder_.byte('{'), json_.space()} + builder_.text("\"name\"") +
                            Symbols{json_.colon()} + builder_.text(Json(tool.name).dump()) +
                            Symbols{builder_.byte(','), json_.space()} + builder_.text(key) +
                            Symbols{json_.colon(), arguments, json_.space(), builder_.byte('}')}});
  }

  Symbol any_object() {
    const Symbol result = builder_.rule();
    for (const Tool& tool : request_.tools) builder_.add(result, {object(tool)});
    return result;
  }

  Symbol rest_of_call() {
    return builder_.any_of({builder_.text("\n") + Symbols{any_object()} + builder_.text("\n</tool_call>")});
  }

  Symbol call() {
    if (format_ == ToolFormat::llama3) return any_object();
    return builder_.any_of({builder_.text(kMarker) + Symbols{rest_of_call()}});
  }

  const ToolRequest& request_;
  ToolFormat format_;
  RuleBuilder builder_;
  JsonRules json_;
};

}  // namespace

std::vector<std::string> ToolRequest::names() const {
  std::vector<std::string> result;
  for (const Tool& tool : tools) result.push_back(tool.name);
  return result;
}

ToolRequest read_tools(const Json& tools, const Json& tool_choice, const Json& parallel_tool_calls) {
  ToolRequest request;
  require<FormatError>(tools.is_null() || tools.is_array(), "tools: expected a list");
  require<FormatError>(tools.size() <= kMostTools, "tools: at most ", kMostTools, " functions, got ", tools.size());
  for (const Json& tool : tools) {
    request.tools.push_back(read_tool(tool));
    const std::vector<std::string> names = request.names();
    require<FormatError>(std::ranges::count(names, names.back()) == 1, "tools: two functions have the name ",
                         in_quotes(names.back()));
  }
  require<FormatError>(parallel_tool_calls.is_null() || parallel_tool_calls.is_boolean(),
                       "parallel_tool_calls: expected true or false");
  request.is_parallel = parallel_tool_calls.is_null() || parallel_tool_calls.boolean();
  choose(request, tool_choice);
  return request;
}

bool needs_grammar(const ToolRequest& request, ToolFormat format) {
  if (request.choice != ToolChoice::automatic) return request.choice == ToolChoice::required;
  const bool is_strict = std::ranges::any_of(request.tools, &Tool::is_strict);
  return format == ToolFormat::hermes && (is_strict || !request.is_parallel);
}

std::optional<Grammar> tool_grammar(const ToolRequest& request, ToolFormat format) {
  if (!needs_grammar(request, format)) return std::nullopt;
  if (request.choice == ToolChoice::automatic) return CallRules(request, format).text_with_calls();
  require<FormatError>(format != ToolFormat::none,
                       "tool_choice: the model's chat template has no format of calls that is supported");
  return CallRules(request, format).calls();
}

}  // namespace attend
