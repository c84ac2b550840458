// A JSON schema of a request: any bytes give a grammar or are refused in one line. Every text of the grammar is JSON,
// and satisfies the schema. The input is the schema, a zero byte, and the choices of a walk through the grammar.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "../grammar/validator.h"
#include "attend/base/error.h"
#include "attend/grammar/json_schema.h"
#include "attend/grammar/tool_calls.h"
#include "grammar/automaton.h"

namespace {

using namespace attend;

void expect(bool ok) {
  if (!ok) std::abort();
}

/// Walks through a grammar: each choice picks one of the allowed bytes. Without choices, prefers bytes that close.
std::string walk(const Grammar& grammar, std::string_view choices) {
  grammar::Automaton automaton(grammar.rules());
  int32_t state = automaton.start();
  std::string text;
  for (size_t i = 0; i < choices.size() + 200; ++i) {
    if (automaton.is_final(state) || (automaton.is_complete(state) && i >= choices.size())) return text;
    std::string allowed;
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton.next(state, static_cast<uint8_t>(byte)) != grammar::Automaton::kDead)
        allowed += static_cast<char>(byte);
    }
    expect(!allowed.empty());  // no dead ends
    char chosen = i < choices.size() ? allowed[static_cast<uint8_t>(choices[i]) % allowed.size()] : allowed[0];
    for (const char close : {'n', '0', '}', ']', '"'}) {
      if (i >= choices.size() && allowed.find(close) != std::string::npos) chosen = close;
    }
    text += chosen;
    state = automaton.next(state, static_cast<uint8_t>(chosen));
    expect(state != grammar::Automaton::kDead);
  }
  return "";  // did not end
}

void use(const Json& schema, std::string_view choices) {
  const std::string text = walk(json_schema_grammar(schema), choices);
  if (text.empty()) return;
  expect(testing::Validator(schema).accepts(Json::parse(text)));
}

/// The rest of the input as the answer of a model.
void parse_calls(std::string_view text) {
  for (const ToolFormat format : {ToolFormat::hermes, ToolFormat::llama3}) {
    ToolCallParser parser({.format = format});
    size_t size = parser.push(text.substr(0, text.size() / 2)).text.size();
    size += parser.push(text.substr(text.size() / 2)).text.size();
    size += parser.finish().text.size();
    expect(parser.has_calls() ? size <= text.size() : size == text.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  try {
    use(Json::parse(bytes.substr(0, end)), bytes.substr(std::min(end + 1, size)));
  } catch (const Error& error) {
    expect(std::strchr(error.what(), '\n') == nullptr);
  }
  parse_calls(bytes);
  return 0;
}
