#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "attend/base/error.h"

// JSON values. The interface follows nlohmann::json. Only json.cpp includes nlohmann::json, to parse text and format
// numbers: its header and its templates add four seconds of compile time to every file that includes it.
namespace attend {

/// A value has the wrong type, a key is missing or an index is out of range.
class JsonError : public FormatError {
 public:
  using FormatError::FormatError;
};

/// A text is not valid JSON.
class JsonParseError : public JsonError {
 public:
  JsonParseError(const std::string& message, size_t byte_at) : JsonError(message), byte(byte_at) {}
  size_t byte;  ///< position of the error in bytes, counted from 1
};

class JsonObject;

/// null, true or false, a number, a string, an array or an object. An object keeps its keys in insertion order.
class Json {
 public:
  template <bool is_const>
  class Iterator;
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;
  using value_type = Json;
  struct Member;
  class Members;

  Json();
  Json(std::nullptr_t);         // NOLINT(google-explicit-constructor)
  Json(const char* text);       // NOLINT(google-explicit-constructor)
  Json(std::string text);       // NOLINT(google-explicit-constructor)
  Json(std::string_view text);  // NOLINT(google-explicit-constructor)
  template <class T>
  requires std::is_arithmetic_v<T> Json(T value) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      set_boolean(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      set_number(static_cast<double>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      set_unsigned(static_cast<uint64_t>(value));
    } else {
      set_integer(static_cast<int64_t>(value));
    }
  }
  template <class T, class Allocator>
  Json(const std::vector<T, Allocator>& items) : Json(array()) {  // NOLINT(google-explicit-constructor)
    for (const auto& item : items) push_back(Json(static_cast<T>(item)));
  }
  template <class T, size_t count>
  Json(const std::array<T, count>& items) : Json(array()) {  // NOLINT(google-explicit-constructor)
    for (const T& item : items) push_back(Json(item));
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : Json(object()) {  // NOLINT(google-explicit-constructor)
    for (const auto& [key, value] : members) (*this)[key] = Json(value);
  }
  template <class T>
  Json(const std::optional<T>& value) : Json() {  // NOLINT(google-explicit-constructor)
    if (value) *this = Json(*value);
  }
  /// An object if every element is a pair whose first element is a string, otherwise an array.
  Json(std::initializer_list<Json> items);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> items = {});
  static Json object(std::initializer_list<Json> members = {});
  /// Parses JSON text. The last of several members with the same key wins. Throws JsonParseError if the text is not
  /// valid JSON, or is nested deeper than kDeepestJson.
  static Json parse(std::string_view text);
  /// parse(), but returns null for invalid JSON.
  static Json parse_or_null(std::string_view text);

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  /// Whether the value is a number that was written without fraction and exponent.
  bool is_number_integer() const;
  /// Whether the value is a non-negative integer.
  bool is_number_unsigned() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  bool is_structured() const { return is_array() || is_object(); }
  /// "null", "boolean", "number", "string", "array" or "object".
  const char* type_name() const;

  /// Number of elements or members; 0 for null, 1 for a scalar.
  size_t size() const;
  bool empty() const { return size() == 0; }

  /// The value as a T: bool, an arithmetic type, std::string, Json or a std::vector of these. Throws JsonError if the
  /// value has another type.
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, Json>) {
      return *this;
    } else if constexpr (std::is_same_v<T, bool>) {
      return boolean();
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number());
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(integer());
    } else if constexpr (std::is_same_v<T, std::string>) {
      return string();
    } else {
      T result;
      for (const Json& item : items_of_array()) result.push_back(item.get<typename T::value_type>());
      return result;
    }
  }
  bool boolean() const;
  double number() const;
  /// The number as an integer; a fraction is truncated towards 0.
  int64_t integer() const;
  const std::string& string() const;

  bool contains(std::string_view key) const;
  /// The member with this key; end() if there is none or the value is not an object.
  iterator find(std::string_view key);
  const_iterator find(std::string_view key) const;
  /// The member or element. Throws JsonError if it does not exist.
  Json& at(std::string_view key);
  const Json& at(std::string_view key) const;
  Json& at(size_t index);
  const Json& at(size_t index) const;
  /// The member with this key. Adds a null member if there is none; a null value becomes an object. References to other
  /// members stay valid.
  Json& operator[](std::string_view key);
  const Json& operator[](std::string_view key) const { return at(key); }
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  const Json& operator[](const char* key) const { return at(std::string_view(key)); }
  template <class T>
  requires std::is_integral_v<T> Json& operator[](T index) { return at(static_cast<size_t>(index)); }
  template <class T>
  requires std::is_integral_v<T>
  const Json& operator[](T index) const { return at(static_cast<size_t>(index)); }
  /// The member's value, or `otherwise` if there is no such member.
  template <class T>
  T value(std::string_view key, const T& otherwise) const {
    const Json* found = value_at(key);
    return found != nullptr ? found->get<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const;
  Json& front() { return at(size_t{0}); }
  const Json& front() const { return at(size_t{0}); }
  Json& back() { return at(size() - 1); }
  const Json& back() const { return at(size() - 1); }

  /// Appends to an array. A null value becomes an array.
  void push_back(Json item);
  template <class... Parts>
  Json& emplace_back(Parts&&... parts) {
    push_back(Json(std::forward<Parts>(parts)...));
    return back();
  }
  /// Sets every member of `other` in this object.
  void update(const Json& other);
  /// Removes a member. Returns false if there is no such member.
  bool erase(std::string_view key);

  /// Elements of an array, or values of an object's members.
  iterator begin();
  iterator end();
  const_iterator begin() const;
  const_iterator end() const;
  /// The members of an object: `for (const auto& [key, value] : json.items())`. Empty if the value is not an object.
  Members items() const;

  /// The value as JSON text: on one line, or indented if `indent` ≥ 0. Invalid UTF-8 becomes U+FFFD; NaN and ±∞ become
  /// null.
  std::string dump(int indent = -1) const;

  /// Compares numbers by value, and objects independent of the order of their members.
  friend bool operator==(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  using Array = std::vector<Json>;

  void set_boolean(bool value);
  void set_integer(int64_t value);
  void set_unsigned(uint64_t value);
  void set_number(double value);
  const Array& items_of_array() const;
  const std::unique_ptr<Member>* member(std::string_view key) const;
  const Json* value_at(std::string_view key) const;
  [[noreturn]] void wrong(const char* expected) const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, std::shared_ptr<JsonObject>> value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

/// The members of an object, in their order.
class Json::Members {
 public:
  class Iterator {
   public:
    explicit Iterator(const std::unique_ptr<Member>* at) : at_(at) {}
    const Member& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const std::unique_ptr<Member>* at_;
  };

  explicit Members(const std::vector<std::unique_ptr<Member>>* members) : members_(members) {}
  Iterator begin() const { return Iterator(members_ != nullptr ? members_->data() : nullptr); }
  Iterator end() const { return Iterator(members_ != nullptr ? members_->data() + members_->size() : nullptr); }
  const Member& operator[](size_t index) const { return *members_->at(index); }

 private:
  const std::vector<std::unique_ptr<Member>>* members_;
};

/// Iterates over the elements of an array or the values of an object's members.
template <bool is_const>
class Json::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = Json;
  using difference_type = std::ptrdiff_t;
  using reference = std::conditional_t<is_const, const Json&, Json&>;
  using pointer = std::conditional_t<is_const, const Json*, Json*>;

  Iterator() = default;
  explicit Iterator(pointer item) : item_(item) {}
  explicit Iterator(const std::unique_ptr<Member>* member) : member_(member) {}

  reference operator*() const { return member_ != nullptr ? (*member_)->value : *item_; }
  pointer operator->() const { return &**this; }
  /// The member's key; only for the iterators of an object.
  const std::string& key() const { return (*member_)->key; }
  reference value() const { return **this; }
  Iterator& operator++() {
    member_ != nullptr ? void(++member_) : void(++item_);
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  pointer item_ = nullptr;
  const std::unique_ptr<Member>* member_ = nullptr;
};

}  // namespace attend
