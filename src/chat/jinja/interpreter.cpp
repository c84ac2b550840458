#include "chat/jinja/interpreter.h"

#include <algorithm>

#include "attend/chat/chat_template.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {

Interpreter::Interpreter(const InterpreterOptions& options)
    : options_(options), globals_(std::make_shared<Scope>()), top_(std::make_shared<Scope>()) {
  add_globals(*globals_);
  top_->parent = globals_;
}

Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->attributes = {};
  for (const ScopePointer& scope : captured_) scope->variables.clear();
}

std::string Interpreter::render(const Statements& statements) {
  try {
    run(statements, top_);
    return std::move(out_);
  } catch (const TemplateRefusal&) {
    throw;
  } catch (const FormatError& error) {
    throw_error<FormatError>("line ", line_, ": ", error.what());
  }
}

void Interpreter::write(std::string_view text) {
  if (out_.size() + text.size() > static_cast<size_t>(options_.output_bytes)) {
    fail("the output has more than ", options_.output_bytes, " bytes");
  }
  budget().step(static_cast<int64_t>(text.size() / 16));
  out_ += text;
}

ScopePointer Interpreter::inner(const ScopePointer& scope) {
  auto result = std::make_shared<Scope>();
  result->parent = scope;
  return result;
}

std::string Interpreter::capture(const Statements& statements, const ScopePointer& scope, Flow* flow) {
  std::string outer = std::exchange(out_, {});
  const Flow end = run(statements, scope);
  if (flow != nullptr) *flow = end;
  return std::exchange(out_, std::move(outer));
}

Interpreter::Flow Interpreter::run(const Statements& statements, const ScopePointer& scope) {
  const Depth depth(*this);
  for (const auto& statement : statements) {
    const Flow flow = run(*statement, scope);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Statement& statement, const ScopePointer& scope) {
  using Kind = Statement::Kind;
  budget().step();
  line_ = statement.line;
  Flow flow = Flow::next;
  switch (statement.kind) {
    case Kind::data:
      write(statement.text);
      break;
    case Kind::print:
      for (const auto& value : statement.values) write(to_text(evaluate(*value, scope), budget()));
      break;
    case Kind::for_loop:
      run_loop(statement, scope, evaluate(*statement.values[0], scope), 1);
      break;
    case Kind::if_else:
      return run_if(statement, scope);
    case Kind::set:
      assign(*statement.target, evaluate(*statement.values[0], scope), scope);
      break;
    case Kind::set_block:
    case Kind::filter_block: {
      Value text = budget().text(capture(statement.body, inner(scope), &flow));
      if (flow != Flow::next) return flow;
      if (statement.values[0]) text = filter_chain(*statement.values[0], text, scope);
      if (statement.kind == Kind::filter_block) {
        write(to_text(text, budget()));
      } else {
        assign(*statement.target, text, scope);
      }
      break;
    }
    case Kind::macro:
      scope->variables[statement.macro->name] = make_macro(statement.macro, scope);
      break;
    case Kind::call_block:
      run_call_block(statement, scope);
      break;
    case Kind::with:
      return run_with(statement, scope);
    case Kind::scope:
      run(statement.body, inner(scope));
      break;
    case Kind::block:
      run(statement.body, inner(top_));
      break;
    case Kind::break_loop:
      return Flow::break_loop;
    case Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, const ScopePointer& scope) {
  for (const Statement::Branch& branch : statement.branches) {
    if (!branch.test || is_true(evaluate(*branch.test, scope))) return run(branch.body, scope);
  }
  return Flow::next;
}

/// The items of a loop that pass its test.
Next Interpreter::filtered(const Statement& statement, const ScopePointer& scope, const Value& items) {
  Next next = iterate(items, budget());
  if (!statement.values[1]) return next;
  return [this, next, &statement, scope]() -> std::optional<Value> {
    while (auto item = next()) {
      const ScopePointer test = inner(scope);
      assign(*statement.target, *item, test);
      if (is_true(evaluate(*statement.values[1], test))) return item;
    }
    return std::nullopt;
  };
}

void Interpreter::run_loop(const Statement& statement, const ScopePointer& scope, const Value& items, int level) {
  std::optional<int64_t> length;
  const bool has_length = !items.as<Iterator>() && !statement.values[1] && is_iterable(items);
  if (has_length) length = length_of(items);
  const auto loop = std::make_shared<Loop>(filtered(statement, scope, items), length, level);
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } const finish{*loop};
  if (statement.is_recursive) {
    loop->recurse = [this, &statement, scope, level](const Value& children) {
      const Depth depth(*this);
      std::string outer = std::exchange(out_, {});
      run_loop(statement, scope, children, level + 1);
      return budget().text(std::exchange(out_, std::move(outer)));
    };
  }
  bool is_empty = true;
  while (const auto item = loop->advance()) {
    is_empty = false;
    budget().step();
    const ScopePointer body = inner(scope);
    body->variables["loop"] = Value(std::shared_ptr<Object>(loop));
    assign(*statement.target, *item, body);
    if (run(statement.body, body) == Flow::break_loop) break;
  }
  if (is_empty) run(statement.otherwise, inner(scope));
}

Interpreter::Flow Interpreter::run_with(const Statement& statement, const ScopePointer& scope) {
  const ScopePointer body = inner(scope);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    assign(*statement.targets[i], evaluate(*statement.values[i], scope), body);
  }
  return run(statement.body, body);
}

void Interpreter::run_call_block(const Statement& statement, const ScopePointer& scope) {
  const Expression& call_node = *statement.values[0];
  const Value function = evaluate(*call_node.parts[0], scope);
  Arguments given = arguments(call_node.arguments, scope);
  given.named.emplace_back("caller", make_macro(statement.macro, scope));
  write(to_text(call(function, given), budget()));
}

void Interpreter::assign(const Expression& target, const Value& value, const ScopePointer& scope) {
  if (target.kind == Expression::Kind::name) {
    scope->variables[target.text] = value;
  } else if (target.kind == Expression::Kind::field) {
    const auto space = name(target.parts[0]->text, scope).as<Namespace>();
    if (!space) fail("cannot assign attribute on non-namespace object");
    space->attributes.set(plain_text(target.text), value, budget());
  } else {
    const size_t wanted = target.parts.size();
    const Next next = iterate(value, budget());
    for (size_t i = 0; i < wanted; ++i) {
      const auto item = next();
      if (!item) fail("not enough values to unpack (expected ", wanted, ", got ", i, ")");
      assign(*target.parts[i], *item, scope);
    }
    if (next()) fail("too many values to unpack (expected ", wanted, ")");
  }
}

Value Interpreter::make_macro(std::shared_ptr<const MacroNode> macro, const ScopePointer& scope) {
  captured_.push_back(scope);
  budget().bytes(64);
  return make_object<Macro>(std::move(macro), scope);
}

Value Interpreter::call_macro(const MacroNode& macro, const ScopePointer& scope, const Arguments& arguments) {
  const Depth depth(*this);
  const ScopePointer body = inner(scope);
  auto& variables = body->variables;
  const size_t parameters = macro.parameters.size(), given = arguments.positional.size();
  for (size_t i = 0; i < std::min(parameters, given); ++i) variables[macro.parameters[i]] = arguments.positional[i];
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(macro.parameters, name) - macro.parameters.begin();
    if (static_cast<size_t>(place) < parameters) {
      if (static_cast<size_t>(place) < given)
        fail("macro '", macro.name, "' got multiple values for argument '", name, "'");
      variables[name] = value;
    } else if (name == "caller" && macro.uses_caller) {
      variables[name] = value;
    } else if (macro.uses_kwargs) {
      rest.set(plain_text(name), value, budget());
    } else {
      fail("macro '", macro.name, "' takes no keyword argument '", name, "'");
    }
  }
  if (macro.uses_kwargs) variables["kwargs"] = budget().dict(std::move(rest));
  if (macro.uses_caller && !variables.contains("caller")) variables["caller"] = undefined("No caller defined");
  if (given > parameters && !macro.uses_varargs) {
    fail("macro '", macro.name, "' takes not more than ", parameters, " argument(s)");
  }
  if (macro.uses_varargs) {
    const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(parameters, given));
    variables["varargs"] = budget().tuple(Values(first, arguments.positional.end()));
  }
  const size_t without_default = parameters - macro.defaults.size();
  for (size_t i = 0; i < parameters; ++i) {
    if (variables.contains(macro.parameters[i])) continue;
    variables[macro.parameters[i]] = i < without_default
                                         ? undefined("parameter '" + macro.parameters[i] + "' was not provided")
                                         : evaluate(*macro.defaults[i - without_default], body);
  }
  return budget().text(capture(macro.body, body));
}

std::optional<Value> Macro::attribute(Interpreter& interpreter, std::string_view name) {
  if (name == "name") return plain_text(node_->name);
  if (name == "catch_kwargs") return Value(node_->uses_kwargs);
  if (name == "catch_varargs") return Value(node_->uses_varargs);
  if (name == "caller") return Value(node_->uses_caller);
  if (name != "arguments") return std::nullopt;
  Values names;
  for (const std::string& parameter : node_->parameters) names.push_back(plain_text(parameter));
  return interpreter.budget().tuple(std::move(names));
}

}  // namespace attend::jinja
