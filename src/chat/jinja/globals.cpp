#include <locale.h>
#include <ctime>

#include <array>

#include "attend/chat/chat_template.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"

namespace attend::jinja {
namespace {

Value make_range(Interpreter&, const Arguments& arguments) {
  arguments.check("range", 3);
  const Values& given = arguments.positional;
  if (given.empty()) fail("range expected at least 1 argument, got 0");
  std::array<int64_t, 3> bounds{0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) bounds[i] = whole_number(given[i], "an argument of range()");
  if (given.size() == 1) std::swap(bounds[0], bounds[1]);
  return make_object<Range>(bounds[0], bounds[1], bounds[2]);
}

/// dict(mapping or pairs, name=value…).
Dict read_dict(Interpreter& interpreter, const Arguments& arguments) {
  Budget& budget = interpreter.budget();
  Dict result;
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument, got ", arguments.positional.size());
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().members) result.set(key, value, budget);
    } else {
      for (const Value& pair : to_list(source, budget)) {
        const Values parts = to_list(pair, budget);
        if (parts.size() != 2) fail("dictionary update sequence element has length ", parts.size(), "; 2 is required");
        result.set(parts[0], parts[1], budget);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) result.set(plain_text(name), value, budget);
  return result;
}

Value make_dict(Interpreter& interpreter, const Arguments& arguments) {
  return interpreter.budget().dict(read_dict(interpreter, arguments));
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  interpreter.budget().bytes(128);
  space->attributes = read_dict(interpreter, arguments);
  interpreter.adopt(space);
  return Value(std::shared_ptr<Object>(space));
}

Value make_cycler(Interpreter&, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  arguments.check("cycler", arguments.positional.size());
  return make_object<Cycler>(arguments.positional);
}

Value make_joiner(Interpreter&, const Arguments& arguments) {
  arguments.check("joiner", 1, {"sep"});
  const Value* separator = arguments.find(0, "sep");
  return make_object<Joiner>(separator != nullptr ? *separator : plain_text(", "));
}

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  arguments.check("raise_exception", 1, {"message"});
  const Value* message = arguments.find(0, "message");
  if (message == nullptr) fail("raise_exception() needs a message");
  throw TemplateRefusal(to_text(*message, interpreter.budget()));
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  arguments.check("strftime_now", 1, {"format"});
  const Value* format = arguments.find(0, "format");
  if (format == nullptr || !format->is_text()) fail("strftime_now() needs a format");
  return interpreter.budget().text(interpreter.format_time(format->bytes()));
}

}  // namespace

void add_globals(Scope& scope) {
  const auto add = [&](const char* name, Function::Body body) {
    scope.variables[name] = make_object<Function>(name, std::move(body));
  };
  add("range", make_range);
  add("dict", make_dict);
  add("namespace", make_namespace);
  add("cycler", make_cycler);
  add("joiner", make_joiner);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
}

std::string Interpreter::format_time(std::string_view format) {
  static const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string out;
  for (size_t at = 0; at < format.size();) {
    budget().step();
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at++];
      continue;
    }
    const size_t flags = std::string_view("-_0^#").find(format[at + 1]) != std::string_view::npos ? 1 : 0;
    const std::string directive(format.substr(at, 2 + flags));
    at += directive.size();
    if (directive == "%f") {
      out += "000000";
    } else if (directive.back() != 'Z' && directive.back() != 'z') {  // a time without zone, as Python's datetime.now()
      std::array<char, 128> text{};
      const size_t size = strftime_l(text.data(), text.size(), directive.c_str(), &options_.now, english);
      out.append(text.data(), size);
    }
  }
  return out;
}

}  // namespace attend::jinja
