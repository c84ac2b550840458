#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

// The syntax tree of a template.
namespace attend::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

/// The arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer star, double_star;  ///< *list and **dict, or null
};

struct Expression {
  enum class Kind {
    constant,     // value
    name,         // text
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, value…
    attribute,    // parts[0] . text
    item,         // parts[0] [parts[1]]
    slice,        // parts[0] [parts[1] : parts[2] : parts[3]], null where left out
    call,         // parts[0] (arguments)
    filter,       // parts[0] | text (arguments); parts[0] is null in a filter block
    test,         // parts[0] is text (arguments)
    unary,        // text: not, - or +
    binary,       // text: and, or, + - * / // % **
    compare,      // parts[0] texts[0] parts[1] texts[1] parts[2]…
    concat,       // parts joined by ~
    conditional,  // parts[1] if parts[0] else parts[2], which may be null
    field,        // a target of set: parts[0], a name, . text
  };
  Kind kind = Kind::constant;
  int line = 0, depth = 1;
  std::string text;
  Value value;
  std::vector<ExpressionPointer> parts;
  std::vector<std::string> texts;
  CallArguments arguments;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<Statement>>;

/// A macro, or the body of a call block.
struct MacroNode {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPointer> defaults;  ///< of the last parameters
  Statements body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Statement {
  enum class Kind {
    data,          // text
    print,         // values
    for_loop,      // target in values[0] if values[1] (or null): body else otherwise
    if_else,       // branches, in order; the test of else is null
    set,           // target = values[0]
    set_block,     // target = body, through the filter values[0] (or null)
    macro,         // macro
    call_block,    // values[0], a call with macro as its caller
    filter_block,  // body through the filter values[0]
    with,          // targets[i] = values[i]: body
    scope,         // body in its own scope: generation
    block,         // body as a named block: it sees only variables of the top level
    break_loop,
    continue_loop,
  };
  struct Branch {
    ExpressionPointer test;
    Statements body;
  };
  Kind kind = Kind::data;
  int line = 0;
  std::string text;
  ExpressionPointer target;
  std::vector<ExpressionPointer> targets, values;
  Statements body, otherwise;
  std::vector<Branch> branches;
  std::shared_ptr<const MacroNode> macro;
  bool is_recursive = false;
};

}  // namespace attend::jinja
