#include <algorithm>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;

bool flag(const Value* value, bool otherwise = false) { return value == nullptr ? otherwise : is_true(*value); }
Value or_none(const Value* value) { return value == nullptr ? Value() : *value; }

Value length(Interpreter&, const Value& value, Given arguments) {
  arguments.check("length", 0);
  return Value(length_of(value));
}
Value list(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("list", 0);
  return interpreter.budget().list(to_list(value, interpreter.budget()));
}
Value first(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("first", 0);
  const auto item = iterate(value, interpreter.budget())();
  return item ? *item : undefined("No first item, sequence was empty.");
}
Value last(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("last", 0);
  const Values items = reversed(value, interpreter.budget());
  return items.empty() ? undefined("No last item, sequence was empty.") : items[0];
}

Value reverse(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("reverse", 0);
  if (value.is_text()) return slice(value, Value(), Value(), Value(int64_t{-1}), interpreter.budget());
  Values items = to_list(value, interpreter.budget());
  std::ranges::reverse(items);
  const Value list = interpreter.budget().list(std::move(items));
  if (value.as<Iterator>()) return list;
  return make_generator(iterate(list, interpreter.budget()), "list_reverseiterator", depth_of(list));
}

Value items(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("items", 0);
  if (value.is_undefined()) return make_generator([] { return std::nullopt; }, "generator", 0);
  if (!value.is_dict()) {  // as a generator, it fails only when it is read
    return make_generator([]() -> std::optional<Value> { fail("Can only get item pairs from a mapping."); },
                          "generator", 0);
  }
  const Value view = make_object<DictView>(value.shared_dict(), DictView::Part::items);
  return make_generator(iterate(view, interpreter.budget()), "generator", depth_of(view));
}

Value join(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("join", 2, {"d", "attribute"});
  Budget& budget = interpreter.budget();
  const Value *separator = arguments.find(0, "d"), *attribute = arguments.find(1, "attribute");
  const std::string between = separator == nullptr ? "" : to_text(*separator, budget);
  std::string out;
  bool is_first = true;
  const Next next = iterate(value, budget);
  while (const auto item = next()) {
    const std::string text = to_text(attribute_path(interpreter, *item, or_none(attribute)), budget);
    budget.check(out.size() + between.size() + text.size());
    budget.step(static_cast<int64_t>((between.size() + text.size()) / 16));
    if (!std::exchange(is_first, false)) out += between;
    out += text;
  }
  return budget.text(std::move(out));
}

/// Sorts by a key for each item; the order of equal items stays.
void sort_by(Values& items, Values keys, bool is_reversed, Budget& budget) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // std::stable_sort expects a strict weak order, which NaN and containers of NaN do not have: a merge sort of our own
  // stays within bounds for any comparison.
  std::vector<size_t> other(order.size());
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size()), end = std::min(begin + 2 * width, order.size());
      for (size_t a = begin, b = middle, out = begin; out < end; ++out) {
        const auto takes_second = [&] {
          if (b == end || a == middle) return a == middle;
          return is_reversed ? less(keys[order[a]], keys[order[b]], budget)
                             : less(keys[order[b]], keys[order[a]], budget);
        };
        other[out] = takes_second() ? order[b++] : order[a++];
      }
    }
    order.swap(other);
  }
  Values sorted;
  for (const size_t place : order) sorted.push_back(items[place]);
  items = std::move(sorted);
}

/// The keys of items by one attribute, or several separated by commas.
Values keys_of(Interpreter& interpreter, const Values& items, const Value& attribute, bool is_case_sensitive) {
  Budget& budget = interpreter.budget();
  const auto key = [&](const Value& item, const Value& path) {
    const Value value = attribute_path(interpreter, item, path);
    return is_case_sensitive ? value : ignoring_case(value, budget);
  };
  Values keys;
  for (const Value& item : items) {
    if (attribute.is_text() && attribute.bytes().find(',') != std::string::npos) {
      Values parts;
      for (const std::string_view path : split(attribute.bytes(), ",", -1))
        parts.push_back(key(item, plain_text(std::string(path))));
      keys.push_back(budget.list(std::move(parts)));
    } else {
      keys.push_back(key(item, attribute));
    }
  }
  return keys;
}

Value sort(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("sort", 3, {"reverse", "case_sensitive", "attribute"});
  Values items = to_list(value, interpreter.budget());
  Values keys =
      keys_of(interpreter, items, or_none(arguments.find(2, "attribute")), flag(arguments.find(1, "case_sensitive")));
  sort_by(items, std::move(keys), flag(arguments.find(0, "reverse")), interpreter.budget());
  return interpreter.budget().list(std::move(items));
}

Value dict_sort(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("dictsort", 3, {"case_sensitive", "by", "reverse"});
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_dict()) fail("'", type_name(value), "' object has no attribute 'items'");
  const Value* by = arguments.find(1, "by");
  const bool by_value = by != nullptr && by->is_text() && by->bytes() == "value";
  if (by != nullptr && !by_value && !(by->is_text() && by->bytes() == "key")) {
    fail("You can only sort by either \"key\" or \"value\"");
  }
  Values pairs = to_list(make_object<DictView>(value.shared_dict(), DictView::Part::items), interpreter.budget());
  Values keys =
      keys_of(interpreter, pairs, Value(int64_t{by_value ? 1 : 0}), flag(arguments.find(0, "case_sensitive")));
  sort_by(pairs, std::move(keys), flag(arguments.find(2, "reverse")), interpreter.budget());
  return interpreter.budget().list(std::move(pairs));
}

template <bool wants_max>
Value extreme(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check(wants_max ? "max" : "min", 2, {"case_sensitive", "attribute"});
  const Values items = to_list(value, interpreter.budget());
  if (items.empty()) return undefined("No aggregated item, sequence was empty.");
  const Values keys =
      keys_of(interpreter, items, or_none(arguments.find(1, "attribute")), flag(arguments.find(0, "case_sensitive")));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const bool is_better =
        wants_max ? less(keys[best], keys[i], interpreter.budget()) : less(keys[i], keys[best], interpreter.budget());
    if (is_better) best = i;
  }
  return items[best];
}

Value sum(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("sum", 2, {"attribute", "start"});
  const Value *attribute = arguments.find(0, "attribute"), *start = arguments.find(1, "start");
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  if (total.is_text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : to_list(value, interpreter.budget())) {
    total = add(total, attribute_path(interpreter, item, or_none(attribute)), interpreter.budget());
  }
  return total;
}

Value unique(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("unique", 2, {"case_sensitive", "attribute"});
  Budget& budget = interpreter.budget();
  const Values items = to_list(value, budget);
  const Values keys =
      keys_of(interpreter, items, or_none(arguments.find(1, "attribute")), flag(arguments.find(0, "case_sensitive")));
  Dict seen;
  Values kept;
  for (size_t i = 0; i < items.size(); ++i) {
    if (seen.find(keys[i], budget) != nullptr) continue;
    seen.set(keys[i], Value(), budget);
    kept.push_back(items[i]);
  }
  const Value list = budget.list(std::move(kept));
  return make_generator(iterate(list, budget), "generator", depth_of(list));
}

Value group_by(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("groupby", 3, {"attribute", "default", "case_sensitive"});
  Budget& budget = interpreter.budget();
  const Value *attribute = arguments.find(0, "attribute"), *otherwise = arguments.find(1, "default");
  if (attribute == nullptr) fail("groupby needs an attribute");
  const bool is_case_sensitive = flag(arguments.find(2, "case_sensitive"));
  Values items = to_list(value, budget);
  const auto key_of = [&](const Value& item) {
    const Value key = attribute_path(interpreter, item, *attribute, otherwise);
    return is_case_sensitive ? key : ignoring_case(key, budget);
  };
  Values keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  sort_by(items, std::move(keys), false, budget);
  Values groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value key = key_of(items[begin]);
    size_t end = begin + 1;
    while (end < items.size() && equal(key_of(items[end]), key, budget)) ++end;
    const auto from = items.begin() + static_cast<std::ptrdiff_t>(begin),
               to = items.begin() + static_cast<std::ptrdiff_t>(end);
    const Value name = is_case_sensitive ? key : attribute_path(interpreter, items[begin], *attribute, otherwise);
    groups.push_back(budget.tuple({name, budget.list(Values(from, to))}, {"grouper", "list"}));
    begin = end;
  }
  return budget.list(std::move(groups));
}

Value as_generator(Values lists, Budget& budget) {
  const Value list = budget.list(std::move(lists));
  return make_generator(iterate(list, budget), "generator", depth_of(list));
}

Value batch(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("batch", 2, {"linecount", "fill_with"});
  Budget& budget = interpreter.budget();
  const Value *count = arguments.find(0, "linecount"), *fill = arguments.find(1, "fill_with");
  if (count == nullptr) fail("batch needs a line count");
  const int64_t size = whole_number(*count, "linecount");
  Values lists, row;
  for (const Value& item : to_list(value, budget)) {
    if (static_cast<int64_t>(row.size()) == size) lists.push_back(budget.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const int64_t missing = fill == nullptr || fill->is_none() ? 0 : size - static_cast<int64_t>(row.size());
    if (missing > 0) {
      budget.check(missing > INT64_MAX / 64 ? SIZE_MAX : static_cast<size_t>(missing) * sizeof(Value));
      row.insert(row.end(), static_cast<size_t>(missing), *fill);
    }
    lists.push_back(budget.list(std::move(row)));
  }
  return as_generator(std::move(lists), budget);
}

Value slice_filter(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("slice", 2, {"slices", "fill_with"});
  Budget& budget = interpreter.budget();
  const Value *count = arguments.find(0, "slices"), *fill = arguments.find(1, "fill_with");
  if (count == nullptr) fail("slice needs a number of slices");
  const int64_t slices = whole_number(*count, "slices");
  if (slices == 0) fail("integer division or modulo by zero");
  const Values items = to_list(value, budget);
  const auto total = static_cast<int64_t>(items.size());
  Values lists;
  for (int64_t i = 0, begin = 0; i < slices; ++i) {
    const int64_t size = total / slices + (i < total % slices ? 1 : 0);
    Values part(items.begin() + begin, items.begin() + begin + size);
    if (fill != nullptr && !fill->is_none() && i >= total % slices) part.push_back(*fill);
    budget.check(lists.size() * sizeof(Value));
    lists.push_back(budget.list(std::move(part)));
    budget.bytes(64);
    begin += size;
  }
  return as_generator(std::move(lists), budget);
}

}  // namespace

void add_list_filters(FilterTable& table) {
  table.insert({{"length", length},
                {"count", length},
                {"list", list},
                {"first", first},
                {"last", last},
                {"reverse", reverse},
                {"items", items},
                {"join", join},
                {"sort", sort},
                {"dictsort", dict_sort},
                {"min", extreme<false>},
                {"max", extreme<true>},
                {"sum", sum},
                {"unique", unique},
                {"groupby", group_by},
                {"batch", batch},
                {"slice", slice_filter}});
}

}  // namespace attend::jinja
