// A JSON schema of a request: any bytes give a grammar or are refused in one line. Every text of the grammar is JSON,
// and satisfies the schema, also if a vocabulary cannot write every text. The input is the schema, a zero byte, and the
// choices of a walk through the grammar.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "../grammar/validator.h"
#include "attend/base/error.h"
#include "attend/grammar/constraint.h"
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

/// Writes tokens of a vocabulary that lacks the first choices as characters, and has them in pairs.
std::string write(const Grammar& grammar, std::string_view choices) {
  std::vector<std::string> tokens;
  const std::string_view first = choices.substr(0, 8);
  for (int byte = 0; byte < 128; ++byte) {
    if (first.find(static_cast<char>(byte)) == std::string_view::npos) tokens.emplace_back(1, static_cast<char>(byte));
  }
  for (size_t i = 0; i + 1 < choices.size() && i < 24; i += 2) tokens.emplace_back(choices.substr(i, 2));
  const auto constraint = Constraint::create(grammar, std::make_shared<const TokenTrie>(tokens));
  Constraint::Cursor cursor = constraint->start();
  std::string text;
  for (size_t i = 0; i < choices.size() + 200; ++i) {
    if (cursor.is_final() || (cursor.is_complete() && i >= choices.size())) return text;
    const auto mask = cursor.allowed();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < static_cast<int32_t>(tokens.size()); ++id) {
      if (mask->allows(id)) allowed.push_back(id);
    }
    if (allowed.empty() && cursor.is_complete()) return text;
    expect(!allowed.empty());  // no dead ends
    int32_t chosen = allowed[(i < choices.size() ? static_cast<uint8_t>(choices[i]) : 0) % allowed.size()];
    for (const int32_t id : allowed) {
      if (i >= choices.size() && std::string_view("n0}]\"").find(tokens[static_cast<size_t>(id)][0]) < 5) chosen = id;
    }
    text += tokens[static_cast<size_t>(chosen)];
    cursor.push(chosen);
  }
  return "";  // did not end
}

void use(const Json& schema, std::string_view choices) {
  const Grammar grammar = json_schema_grammar(schema);
  for (const std::string& text : {walk(grammar, choices), write(grammar, choices)}) {
    if (!text.empty()) expect(testing::Validator(schema).accepts(Json::parse(text)));
  }
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
