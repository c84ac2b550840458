#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/jinja/value.h"

namespace attend::jinja {

class Interpreter;

/// The arguments of a call.
struct Arguments {
  Values positional;
  NamedValues named;

  /// The argument at `place` of a signature, or the one of this name; null if it was not given.
  const Value* find(size_t place, std::string_view name) const;
  /// Throws FormatError unless there are at most `most` positional arguments and every named one is in `names`.
  void check(std::string_view function, size_t most, std::initializer_list<std::string_view> names = {}) const;
};

/// Everything that is neither a plain value nor a container. Templates reach only what is declared here.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  /// Python's name of the type.
  virtual std::string type() const = 0;
  virtual std::string print() const { return "<" + type() + " object>"; }
  virtual bool is_true() const { return true; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
  /// An attribute; nullopt if there is none.
  virtual std::optional<Value> attribute(Interpreter& interpreter, std::string_view name);
  /// len(); nullopt if the object has none.
  virtual std::optional<int64_t> length() const { return std::nullopt; }
  /// The item of an index in [0, length); only of objects that are sequences.
  virtual std::optional<Value> item(int64_t) const { return std::nullopt; }
  virtual bool is_sequence() const { return false; }

  int depth = 1;  ///< see kDeepestValue
};

/// Yields values one after another. nullopt: there are no more.
using Next = std::function<std::optional<Value>()>;

/// A Python generator or iterator: it can be read once.
class Iterator : public Object {
 public:
  Iterator(Next next, std::string type, int nesting) : next_(std::move(next)), type_(std::move(type)) {
    if (nesting >= kDeepestValue) fail("iterators are nested too deeply");
    depth = nesting + 1;
  }
  std::string type() const override { return type_; }
  std::optional<Value> next();

 private:
  Next next_;
  std::string type_;
  bool is_running_ = false;
};

class Range : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step);
  std::string type() const override { return "range"; }
  std::string print() const override;
  bool is_true() const override { return count_ > 0; }
  std::optional<int64_t> length() const override { return count_; }
  std::optional<Value> item(int64_t index) const override { return Value(start_ + index * step_); }
  bool is_sequence() const override { return true; }
  /// The items with the given bounds of a slice.
  std::shared_ptr<Range> slice(int64_t first, int64_t step, int64_t count) const;

 private:
  int64_t start_, stop_, step_, count_;
};

/// dict.keys(), values() or items().
class DictView : public Object {
 public:
  enum class Part { keys, values, items };
  DictView(std::shared_ptr<const Dict> dict, Part part) : dict_(std::move(dict)), part_(part) { depth = dict_->depth; }
  std::string type() const override;
  bool is_true() const override { return !dict_->members.empty(); }
  std::optional<int64_t> length() const override { return static_cast<int64_t>(dict_->members.size()); }
  std::optional<Value> item(int64_t index) const override;

 private:
  std::shared_ptr<const Dict> dict_;
  Part part_;
};

/// namespace(): the only value whose attributes can be set.
class Namespace : public Object {
 public:
  std::string type() const override { return "Namespace"; }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  Dict attributes;
};

/// A built-in function, or a method bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Value(Interpreter&, const Arguments&)>;
  Function(std::string name, Body body, int nesting = 0) : name_(std::move(name)), body_(std::move(body)) {
    if (nesting >= kDeepestValue) fail("values are nested too deeply");
    depth = nesting + 1;
  }
  std::string type() const override { return "builtin_function_or_method"; }
  std::string print() const override { return "<function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override { return body_(interpreter, arguments); }

 private:
  std::string name_;
  Body body_;
};

/// The variable `loop` inside a for statement.
class Loop : public Object {
 public:
  using Recurse = std::function<Value(const Value& items)>;
  Loop(Next source, std::optional<int64_t> length, int level)
      : source_(std::move(source)), length_(length), level_(level) {}

  std::string type() const override { return "LoopContext"; }
  std::string print() const override;
  bool is_callable() const override { return recurse != nullptr; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  std::optional<int64_t> length() const override { return const_cast<Loop*>(this)->count(); }
  /// Moves to the next item; nullopt at the end.
  std::optional<Value> advance();

  /// Forgets the items, so that no cycle of references survives the loop.
  void finish();

  Recurse recurse;  ///< set in recursive loops

 private:
  int64_t count();
  const std::optional<Value>& peek();
  Value changed(Interpreter& interpreter, const Values& values);

  Next source_;
  std::optional<int64_t> length_;
  int level_;
  int64_t index_ = -1;
  bool has_peeked_ = false;
  std::optional<Value> after_, current_, before_;
  std::optional<Values> last_changed_;
};

/// cycler('odd', 'even'): next(), current, reset().
class Cycler : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) { depth = depth_above(items_); }
  std::string type() const override { return "Cycler"; }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;

 private:
  Values items_;
  size_t at_ = 0;
};

/// joiner(', '): nothing at the first call, then the separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) { depth = depth_above({separator_}); }
  std::string type() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override;

 private:
  Value separator_;
  bool is_used_ = false;
};

template <class T, class... Parts>
Value make_object(Parts&&... parts) {
  return Value(std::shared_ptr<Object>(std::make_shared<T>(std::forward<Parts>(parts)...)));
}

}  // namespace attend::jinja
