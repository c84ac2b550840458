#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chat/jinja/nodes.h"
#include "chat/jinja/objects.h"

namespace attend::jinja {

/// Variables of one block, inside those of another.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string, Value> variables;
};
using ScopePointer = std::shared_ptr<Scope>;

struct InterpreterOptions {
  Budget budget{0, 0, 0};
  int64_t output_bytes = 0;
  int depth = 0;  ///< nested evaluations
  std::tm now{};  ///< the time of strftime_now
};

/// Renders one template once.
class Interpreter {
 public:
  explicit Interpreter(const InterpreterOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set(const std::string& name, Value value) { top_->variables[name] = std::move(value); }
  /// Throws FormatError with the line of the template.
  std::string render(const Statements& statements);

  // For filters, methods and objects.
  Budget& budget() { return options_.budget; }
  const std::tm& now() const { return options_.now; }
  Value call(const Value& function, const Arguments& arguments);
  /// A method or attribute; nullopt if there is none.
  std::optional<Value> member(const Value& value, const std::string& name);
  /// value.name: a method or attribute, then a key.
  Value attribute(const Value& value, const std::string& name);
  /// value[key]: a key or index, then an attribute.
  Value item(const Value& value, const Value& key);
  /// Calls a macro: binds the arguments, runs the body, returns its text.
  Value call_macro(const MacroNode& macro, const ScopePointer& scope, const Arguments& arguments);
  /// Keeps a namespace until the end of the rendering, when its attributes are released: it may be part of a cycle.
  void adopt(std::shared_ptr<Namespace> space) { namespaces_.push_back(std::move(space)); }
  /// strftime() in English.
  std::string format_time(std::string_view format);

 private:
  enum class Flow { next, break_loop, continue_loop };
  class Depth;

  // Statements: interpreter.cpp.
  Flow run(const Statements& statements, const ScopePointer& scope);
  Flow run(const Statement& statement, const ScopePointer& scope);
  Flow run_if(const Statement& statement, const ScopePointer& scope);
  void run_loop(const Statement& statement, const ScopePointer& scope, const Value& items, int level);
  Flow run_with(const Statement& statement, const ScopePointer& scope);
  void run_call_block(const Statement& statement, const ScopePointer& scope);
  Next filtered(const Statement& statement, const ScopePointer& scope, const Value& items);
  void assign(const Expression& target, const Value& value, const ScopePointer& scope);
  /// Runs statements and returns what they print.
  std::string capture(const Statements& statements, const ScopePointer& scope, Flow* flow = nullptr);
  void write(std::string_view text);
  Value make_macro(std::shared_ptr<const MacroNode> macro, const ScopePointer& scope);
  ScopePointer inner(const ScopePointer& scope);

  // Expressions: evaluate.cpp.
  Value evaluate(const Expression& expression, const ScopePointer& scope);
  Value name(const std::string& name, const ScopePointer& scope);
  Value unary(const Expression& expression, const ScopePointer& scope);
  Value binary(const Expression& expression, const ScopePointer& scope);
  Value compare(const Expression& expression, const ScopePointer& scope);
  Value concat(const Expression& expression, const ScopePointer& scope);
  Value dict(const Expression& expression, const ScopePointer& scope);
  Value slice(const Expression& expression, const ScopePointer& scope);
  Values all(const std::vector<ExpressionPointer>& parts, const ScopePointer& scope);
  Arguments arguments(const CallArguments& arguments, const ScopePointer& scope);
  Value filter(const Expression& expression, const Value& value, const ScopePointer& scope);
  /// The first filter of a chain in a filter or set block is applied to `value`.
  Value filter_chain(const Expression& expression, const Value& value, const ScopePointer& scope);

  InterpreterOptions options_;
  ScopePointer globals_, top_;
  std::string out_;
  int depth_ = 0, line_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<ScopePointer> captured_;  ///< scopes of macros: released at the end, as they may be part of a cycle
};

/// Counts nested evaluations, as the stack is finite.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= interpreter.options_.depth) fail("maximum recursion depth exceeded");
    ++interpreter.depth_;
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& interpreter_;
};

/// A macro with the scope it was defined in.
class Macro : public Object {
 public:
  Macro(std::shared_ptr<const MacroNode> node, ScopePointer scope) : node_(std::move(node)), scope_(std::move(scope)) {}
  std::string type() const override { return "Macro"; }
  std::string print() const override { return "<Macro '" + node_->name + "'>"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return interpreter.call_macro(*node_, scope_, arguments);
  }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;

 private:
  std::shared_ptr<const MacroNode> node_;
  ScopePointer scope_;
};

/// range, dict, namespace, cycler, joiner, raise_exception and strftime_now.
void add_globals(Scope& scope);

}  // namespace attend::jinja
