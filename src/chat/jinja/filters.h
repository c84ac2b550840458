#pragma once

#include <map>
#include <string>
#include <string_view>

#include "chat/jinja/objects.h"

namespace attend::jinja {

/// A filter or a test: `value|name(arguments)`, `value is name(arguments)`.
using FilterBody = Value (*)(Interpreter&, const Value& value, const Arguments& arguments);
using FilterTable = std::map<std::string_view, FilterBody>;

bool has_filter(std::string_view name);
bool has_test(std::string_view name);
Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(Interpreter& interpreter, std::string_view name, const Value& value, const Arguments& arguments);

// The parts of the table.
void add_text_filters(FilterTable& table);       // text_filters.cpp
void add_list_filters(FilterTable& table);       // list_filters.cpp
void add_selection_filters(FilterTable& table);  // selection_filters.cpp
void add_number_filters(FilterTable& table);     // number_filters.cpp

/// Reads an attribute by a path as `a.b.0`; a part of it that is missing becomes `otherwise`, if given.
Value attribute_path(Interpreter& interpreter, const Value& item, const Value& path, const Value* otherwise = nullptr);
/// The value, in lower case if it is text: the key of an order that ignores case.
Value ignoring_case(const Value& value, Budget& budget);

}  // namespace attend::jinja
