#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "attend/base/error.h"

// The values of a template. They behave like Python's: undefined, None, bool, int, float, str, list, tuple, dict, and
// objects (functions, iterators, namespaces). All but namespaces and iterators are immutable and shared.
namespace attend::jinja {

class Object;
class Value;

/// Throws the FormatError of a template. The interpreter adds the line.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw_error<FormatError>(parts...);
}

/// A missing variable, key or attribute. It prints as nothing and is false; most uses fail with `message`.
struct Undefined {
  std::string message;
};

/// A str in UTF-8.
struct Text {
  std::string bytes;
  bool is_markup = false;  ///< marked by `safe`, as Python's Markup: joining it with plain text escapes the plain text
  int64_t length = 0;      ///< in code points
};

/// A list or a tuple.
struct Sequence {
  std::vector<Value> items;
  std::vector<std::string> names;  ///< a named tuple's fields; otherwise empty
  int depth = 1;
};

struct Dict;

class Value {
 public:
  using TextPointer = std::shared_ptr<const Text>;
  using SequencePointer = std::shared_ptr<const Sequence>;
  struct List {
    SequencePointer items;
  };
  struct Tuple {
    SequencePointer items;
  };

  Value() = default;  // None
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::shared_ptr<const Undefined> undefined) : data_(std::move(undefined)) {}
  explicit Value(TextPointer text) : data_(std::move(text)) {}
  explicit Value(List list) : data_(std::move(list)) {}
  explicit Value(Tuple tuple) : data_(std::move(tuple)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}

  bool is_none() const { return holds<std::monostate>(); }
  bool is_undefined() const { return holds<std::shared_ptr<const Undefined>>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_integer() const { return holds<int64_t>(); }
  bool is_real() const { return holds<double>(); }
  /// Whether Python treats the value as a number; True and False are 1 and 0.
  bool is_number() const { return is_integer() || is_real() || is_boolean(); }
  bool is_whole() const { return is_integer() || is_boolean(); }
  bool is_text() const { return holds<TextPointer>(); }
  bool is_markup() const { return is_text() && text().is_markup; }
  bool is_list() const { return holds<List>(); }
  bool is_tuple() const { return holds<Tuple>(); }
  bool is_sequence() const { return is_list() || is_tuple(); }
  bool is_dict() const { return holds<std::shared_ptr<const Dict>>(); }
  bool is_object() const { return holds<std::shared_ptr<Object>>(); }

  bool boolean() const { return std::get<bool>(data_); }
  /// The integer, or 0 and 1 for False and True.
  int64_t integer() const { return is_boolean() ? int64_t{boolean()} : std::get<int64_t>(data_); }
  /// The number as a double.
  double real() const { return is_real() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<TextPointer>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Sequence& sequence() const { return is_list() ? *std::get<List>(data_).items : *std::get<Tuple>(data_).items; }
  const std::vector<Value>& items() const { return sequence().items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  std::shared_ptr<const Dict> shared_dict() const { return std::get<std::shared_ptr<const Dict>>(data_); }
  Object& object() const { return *std::get<std::shared_ptr<Object>>(data_); }
  const Undefined& undefined() const { return *std::get<std::shared_ptr<const Undefined>>(data_); }
  /// The object as a T; null for any other value.
  template <class T>
  std::shared_ptr<T> as() const {
    return is_object() ? std::dynamic_pointer_cast<T>(std::get<std::shared_ptr<Object>>(data_)) : nullptr;
  }
  /// Whether both are the same object, as Python's `is`.
  bool is_same(const Value& other) const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }

  std::variant<std::monostate, std::shared_ptr<const Undefined>, bool, int64_t, double, TextPointer, List, Tuple,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

using Values = std::vector<Value>;
using NamedValues = std::vector<std::pair<std::string, Value>>;

/// Limits of one rendering, and what is left of them. Every operation pays here before it works or allocates.
class Budget {
 public:
  Budget(int64_t steps, int64_t bytes, int64_t value_bytes) : steps_(steps), bytes_(bytes), value_bytes_(value_bytes) {}

  void step(int64_t count = 1) {
    if ((steps_ -= count) < 0) fail("the template runs too long");
  }
  /// Pays for a value of `count` bytes.
  void bytes(int64_t count) {
    if (count > value_bytes_) fail("a value has more than ", value_bytes_, " bytes");
    if ((bytes_ -= count) < 0) fail("the template uses too much memory");
    step(count / 16);
  }
  /// Throws unless a value may have this size; pays nothing.
  void check(size_t size) const {
    if (size > static_cast<size_t>(value_bytes_)) fail("a value has more than ", value_bytes_, " bytes");
  }

  Value text(std::string bytes, bool is_markup = false);
  Value list(Values items);
  Value tuple(Values items, std::vector<std::string> names = {});
  Value dict(Dict dict);

 private:
  int64_t steps_, bytes_, value_bytes_;
};

/// Levels of lists, tuples, dicts and iterators inside each other. Code that walks a value recurses this deep.
constexpr int kDeepestValue = 200;

/// A dict in insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
  int depth = 1;

  const Value* find(std::string_view key) const;
  /// Throws FormatError if the key cannot be hashed.
  const Value* find(const Value& key, Budget& budget) const;
  void set(const Value& key, Value value, Budget& budget);
  void set(std::string_view key, Value value);  // for text that was not a key before

 private:
  static constexpr size_t kIndexedFrom = 9;
  const Value* find_hash(const std::string& hash) const;

  std::unordered_map<std::string, size_t> index_;  ///< by hash_key(); only of dicts with kIndexedFrom members or more
};

/// Text that is equal for equal keys of a dict: 1, 1.0 and True are the same key. Throws FormatError for lists and
/// dicts.
std::string hash_key(const Value& key, Budget& budget);

/// Makes a Value of text that needs no budget: names and constants of the template.
Value plain_text(std::string bytes, bool is_markup = false);
Value undefined(std::string message);
int depth_of(const Value& value);
/// 1 + the depth of the deepest item. Throws FormatError above kDeepestValue.
int depth_above(const Values& items);

/// Python's name of the type: "str", "NoneType", "dict"…
std::string type_name(const Value& value);

}  // namespace attend::jinja
