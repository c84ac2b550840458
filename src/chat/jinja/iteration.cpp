#include <algorithm>

#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

/// The bounds of a slice over `length` items, as Python's slice.indices().
struct Bounds {
  int64_t first = 0, step = 1, count = 0;
};

Bounds bounds_of(int64_t length, const Value& start, const Value& stop, const Value& step) {
  const auto index = [](const Value& value) {
    if (value.is_undefined()) fail(value.undefined().message);
    if (!value.is_whole()) fail("slice indices must be integers or None or have an __index__ method");
    return value.integer();
  };
  Bounds bounds;
  if (!step.is_none()) bounds.step = index(step);
  if (bounds.step == 0) fail("slice step cannot be zero");
  if (bounds.step == INT64_MIN) bounds.step = -INT64_MAX;
  const bool forward = bounds.step > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? length : length - 1;
  const auto place = [&](const Value& value, int64_t otherwise) {
    if (value.is_none()) return otherwise;
    const int64_t at = index(value);
    return std::clamp(at < 0 ? at + length : at, lowest, highest);
  };
  bounds.first = place(start, forward ? 0 : length - 1);
  const int64_t end = place(stop, forward ? length : -1);
  const int64_t distance = forward ? end - bounds.first : bounds.first - end;
  const int64_t stride = forward ? bounds.step : -bounds.step;
  bounds.count = distance > 0 ? 1 + (distance - 1) / stride : 0;
  return bounds;
}

std::string text_slice(const Text& text, const Bounds& bounds) {
  const bool is_ascii = text.length == static_cast<int64_t>(text.bytes.size());
  if (bounds.step == 1) {
    const size_t begin = is_ascii ? static_cast<size_t>(bounds.first) : byte_offset(text.bytes, bounds.first);
    const std::string_view rest = std::string_view(text.bytes).substr(begin);
    return std::string(rest.substr(0, is_ascii ? static_cast<size_t>(bounds.count) : byte_offset(rest, bounds.count)));
  }
  const auto all = characters(text.bytes);
  std::string out;
  for (int64_t i = 0; i < bounds.count; ++i) out += all[static_cast<size_t>(bounds.first + i * bounds.step)];
  return out;
}

/// Yields make(0), make(1)… make(count - 1). `keep` holds what `make` refers to.
template <class Make>
Next counted(int64_t count, Make make) {
  return [count, make = std::move(make), at = int64_t{0}]() mutable -> std::optional<Value> {
    if (at == count) return std::nullopt;
    return make(at++);
  };
}

}  // namespace

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return value.text().length;
  if (value.is_sequence()) return static_cast<int64_t>(value.items().size());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().members.size());
  if (value.is_object()) {
    if (const auto length = value.object().length()) return *length;
  }
  fail("object of type '", type_name(value), "' has no len()");
}

bool is_iterable(const Value& value) {
  if (value.is_object()) return value.as<Iterator>() || value.as<Loop>() || value.object().length().has_value();
  return value.is_undefined() || value.is_text() || value.is_sequence() || value.is_dict();
}

Next iterate(const Value& value, Budget& budget) {
  if (value.is_undefined()) return [] { return std::nullopt; };
  if (const auto iterator = value.as<Iterator>()) {
    return [iterator, &budget] {
      budget.step();
      return iterator->next();
    };
  }
  if (value.is_text()) {
    return [value, &budget, at = size_t{0}]() mutable -> std::optional<Value> {
      const std::string& bytes = value.bytes();
      if (at == bytes.size()) return std::nullopt;
      budget.step();
      const size_t begin = at;
      at += byte_offset(std::string_view(bytes).substr(at), 1);
      return budget.text(bytes.substr(begin, at - begin), value.is_markup());
    };
  }
  if (value.is_sequence()) {
    return counted(static_cast<int64_t>(value.items().size()), [value, &budget](int64_t at) {
      budget.step();
      return value.items()[static_cast<size_t>(at)];
    });
  }
  if (value.is_dict()) {
    return counted(static_cast<int64_t>(value.dict().members.size()), [value, &budget](int64_t at) {
      budget.step();
      return value.dict().members[static_cast<size_t>(at)].first;
    });
  }
  if (!is_iterable(value) || value.as<Loop>()) fail("'", type_name(value), "' object is not iterable");
  return counted(*value.object().length(), [value, &budget](int64_t at) {
    budget.bytes(2 * sizeof(Value));
    return *value.object().item(at);
  });
}

Values to_list(const Value& value, Budget& budget) {
  Values items;
  const Next next = iterate(value, budget);
  while (auto item = next()) {
    budget.check((items.size() + 1) * sizeof(Value));
    items.push_back(std::move(*item));
  }
  budget.bytes(static_cast<int64_t>(items.size() * sizeof(Value)));
  return items;
}

Values reversed(const Value& value, Budget& budget) {
  if (value.as<Iterator>() || (value.is_object() && !value.object().length())) {
    fail("'", type_name(value), "' object is not reversible");
  }
  Values items = to_list(value, budget);
  std::ranges::reverse(items);
  return items;
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  const Bounds bounds = bounds_of(length_of(value), start, stop, step);
  if (value.is_text()) {
    budget.step(static_cast<int64_t>(value.bytes().size() / 16));
    return budget.text(text_slice(value.text(), bounds), value.is_markup());
  }
  if (const auto range = value.as<Range>()) {
    return Value(std::shared_ptr<Object>(range->slice(bounds.first, bounds.step, bounds.count)));
  }
  Values items;
  budget.step(bounds.count);
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(value.items()[static_cast<size_t>(bounds.first + i * bounds.step)]);
  }
  return value.is_list() ? budget.list(std::move(items)) : budget.tuple(std::move(items));
}

Value make_generator(Next next, const char* type, int nesting) {
  return make_object<Iterator>(std::move(next), type, nesting);
}

}  // namespace attend::jinja
