// The part of the parser that reads expressions, by Jinja's precedence.

#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/parser.h"

namespace attend::jinja {
namespace {

using Kind = Expression::Kind;

// The evaluator recurses once for each level of an expression.
constexpr int kDeepestExpression = 400;

}  // namespace

ExpressionPointer Parser::make(Kind kind, std::string text) const {
  auto result = std::make_unique<Expression>();
  result->kind = kind;
  result->line = current().line;
  result->text = std::move(text);
  return result;
}

void Parser::add(Expression& parent, ExpressionPointer part) const {
  if (part) parent.depth = std::max(parent.depth, part->depth + 1);
  if (parent.depth > kDeepestExpression) wrong("an expression is nested too deeply");
  parent.parts.push_back(std::move(part));
}

ExpressionPointer Parser::expression(bool with_condition) {
  Level level(*this);
  return with_condition ? conditional() : disjunction();
}

ExpressionPointer Parser::conditional() {
  const size_t known = unknown_.size();
  ExpressionPointer value = disjunction();
  if (!is_name("if")) return value;
  unknown_.resize(known);
  const Override soft(is_soft_, true);
  while (take_name("if")) {
    auto result = make(Kind::conditional);
    add(*result, disjunction());
    add(*result, std::move(value));
    Level level(*this);
    add(*result, take_name("else") ? conditional() : nullptr);
    value = std::move(result);
  }
  return value;
}

ExpressionPointer Parser::disjunction() {
  ExpressionPointer left = conjunction();
  while (take_name("or")) {
    auto result = make(Kind::binary, "or");
    add(*result, std::move(left));
    add(*result, conjunction());
    left = std::move(result);
  }
  return left;
}

ExpressionPointer Parser::conjunction() {
  ExpressionPointer left = negation();
  while (take_name("and")) {
    auto result = make(Kind::binary, "and");
    add(*result, std::move(left));
    add(*result, negation());
    left = std::move(result);
  }
  return left;
}

ExpressionPointer Parser::negation() {
  if (!is_name("not")) return comparison();
  Level level(*this);
  auto result = make(Kind::unary, "not");
  take();
  add(*result, negation());
  return result;
}

ExpressionPointer Parser::comparison() {
  static constexpr std::array<std::string_view, 6> kSymbols{"==", "!=", "<", "<=", ">", ">="};
  ExpressionPointer left = sum();
  auto result = make(Kind::compare);
  while (true) {
    const bool is_symbol_here = current().kind == TokenKind::symbol && std::ranges::count(kSymbols, current().text) > 0;
    if (is_symbol_here || is_name("in")) {
      result->texts.push_back(take().text);
    } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      take();
      take();
      result->texts.push_back("not in");
    } else {
      break;
    }
    if (left) add(*result, std::move(left));
    add(*result, sum());
  }
  return result->parts.empty() ? std::move(left) : std::move(result);
}

ExpressionPointer Parser::sum() {
  ExpressionPointer left = concatenation();
  while (is_symbol("+") || is_symbol("-")) {
    auto result = make(Kind::binary, take().text);
    add(*result, std::move(left));
    add(*result, concatenation());
    left = std::move(result);
  }
  return left;
}

ExpressionPointer Parser::concatenation() {
  ExpressionPointer first = product();
  if (!is_symbol("~")) return first;
  auto result = make(Kind::concat);
  add(*result, std::move(first));
  while (take_symbol("~")) add(*result, product());
  return result;
}

ExpressionPointer Parser::product() {
  ExpressionPointer left = power();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    auto result = make(Kind::binary, take().text);
    add(*result, std::move(left));
    add(*result, power());
    left = std::move(result);
  }
  return left;
}

ExpressionPointer Parser::power() {
  ExpressionPointer left = unary();
  while (is_symbol("**")) {  // from left to right, as in Jinja
    auto result = make(Kind::binary, take().text);
    add(*result, std::move(left));
    add(*result, unary());
    left = std::move(result);
  }
  return left;
}

ExpressionPointer Parser::unary(bool with_filter) {
  ExpressionPointer value;
  if (is_symbol("-") || is_symbol("+")) {
    Level level(*this);
    value = make(Kind::unary, take().text);
    add(*value, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPointer Parser::primary() {
  auto result = make(Kind::constant);
  const Token& token = current();
  if (token.kind == TokenKind::name) {
    const std::string& name = token.text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      result->value = Value(name == "true" || name == "True");
    } else if (name != "none" && name != "None") {
      result->kind = Kind::name;
      result->text = name;
      special_.varargs |= name == "varargs";
      special_.kwargs |= name == "kwargs";
      special_.caller |= name == "caller";
    }
    take();
  } else if (token.kind == TokenKind::text) {
    std::string text;
    while (current().kind == TokenKind::text) text += take().text;
    result->value = plain_text(std::move(text));
  } else if (token.kind == TokenKind::integer) {
    result->value = Value(take().integer);
  } else if (token.kind == TokenKind::real) {
    result->value = Value(take().real);
  } else if (take_symbol("(")) {
    result = tuple(TupleKind::plain, {}, true);
    expect_symbol(")");
  } else if (is_symbol("[")) {
    result = list_literal();
  } else if (is_symbol("{")) {
    result = dict_literal();
  } else {
    unexpected("an expression");
  }
  return result;
}

ExpressionPointer Parser::list_literal() {
  auto result = make(Kind::list);
  take();
  while (!is_symbol("]")) {
    if (!result->parts.empty()) expect_symbol(",");
    if (is_symbol("]")) break;
    add(*result, expression());
  }
  take();
  return result;
}

ExpressionPointer Parser::dict_literal() {
  auto result = make(Kind::dict);
  take();
  while (!is_symbol("}")) {
    if (!result->parts.empty()) expect_symbol(",");
    if (is_symbol("}")) break;
    add(*result, expression());
    expect_symbol(":");
    add(*result, expression());
  }
  take();
  return result;
}

ExpressionPointer Parser::tuple(TupleKind kind, Names ends, bool in_parentheses) {
  const auto part = [&] { return kind == TupleKind::names ? primary() : expression(kind == TupleKind::plain); };
  const auto is_end = [&] {
    return current().kind == TokenKind::print_end || current().kind == TokenKind::block_end || is_symbol(")") ||
           std::ranges::any_of(ends, [this](std::string_view end) { return is_name(end); });
  };
  auto result = make(Kind::tuple);
  bool is_tuple = false;
  while (true) {
    if (!result->parts.empty()) expect_symbol(",");
    if (is_end()) break;
    add(*result, part());
    if (!is_symbol(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return result;
  if (!result->parts.empty()) return std::move(result->parts[0]);
  if (!in_parentheses) unexpected("an expression");
  return result;
}

ExpressionPointer Parser::target(Names ends, bool may_be_field) {
  ExpressionPointer result;
  if (may_be_field && current().kind == TokenKind::name && ahead().kind == TokenKind::symbol && ahead().text == ".") {
    result = make(Kind::field);
    add(*result, make(Kind::name, take().text));
    take();
    result->text = expect_name();
    return result;
  }
  result = tuple(TupleKind::names, ends);
  check_target(*result);
  return result;
}

void Parser::check_target(const Expression& target) const {
  if (target.kind == Kind::tuple) {
    for (const ExpressionPointer& part : target.parts) check_target(*part);
  } else if (target.kind != Kind::name) {
    wrong("can't assign to this expression");
  } else if (target.text == "loop" && loops_ > 0) {
    wrong("Can't assign to special loop variable in for-loop target");
  }
}

ExpressionPointer Parser::postfix(ExpressionPointer value) {
  while (true) {
    if (is_symbol(".") || is_symbol("[")) {
      value = subscript(std::move(value));
    } else if (is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer Parser::subscript(ExpressionPointer value) {
  if (take().text == ".") {
    const Token name = take();
    const bool is_index = name.kind == TokenKind::integer;
    if (!is_index && name.kind != TokenKind::name) wrong("expected name or number");
    auto result = make(is_index ? Kind::item : Kind::attribute, is_index ? "" : name.text);
    add(*result, std::move(value));
    if (is_index) {
      add(*result, make(Kind::constant));
      result->parts[1]->value = Value(name.integer);
    }
    return result;
  }
  auto result = subscript_part(std::move(value));
  if (is_symbol(",")) {
    if (result->kind == Kind::slice) wrong("slices of several dimensions are not supported");
    auto index = make(Kind::tuple);
    add(*index, std::move(result->parts[1]));
    result->parts.pop_back();
    while (take_symbol(",")) add(*index, expression());
    add(*result, std::move(index));
  }
  expect_symbol("]");
  return result;
}

ExpressionPointer Parser::subscript_part(ExpressionPointer value) {
  auto result = make(Kind::slice);
  add(*result, std::move(value));
  ExpressionPointer first = is_symbol(":") ? nullptr : expression();
  if (!is_symbol(":")) {
    result->kind = Kind::item;
    add(*result, std::move(first));
    return result;
  }
  add(*result, std::move(first));
  for (int i = 0; i < 2; ++i) {
    const bool has_part = take_symbol(":") && !is_symbol(":") && !is_symbol("]") && !is_symbol(",");
    add(*result, has_part ? expression() : nullptr);
  }
  return result;
}

ExpressionPointer Parser::call(ExpressionPointer value) {
  auto result = make(Kind::call);
  add(*result, std::move(value));
  read_arguments(*result);
  return result;
}

void Parser::read_arguments(Expression& parent) {
  parent.arguments = call_arguments();
  const auto count = [&](const ExpressionPointer& part) {
    if (part) parent.depth = std::max(parent.depth, part->depth + 1);
  };
  std::ranges::for_each(parent.arguments.positional, count);
  for (const auto& [name, value] : parent.arguments.named) count(value);
  count(parent.arguments.star);
  count(parent.arguments.double_star);
  if (parent.depth > kDeepestExpression) wrong("an expression is nested too deeply");
}

void Parser::note_unknown(const char* kind, const std::string& name) {
  unknown_.push_back("line " + std::to_string(current().line) + ": No " + kind + " named '" + name + "'.");
}

CallArguments Parser::call_arguments() {
  CallArguments result;
  bool is_first = true;
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (!std::exchange(is_first, false)) expect_symbol(",");
    if (is_symbol(")")) break;
    const bool is_named = current().kind == TokenKind::name && ahead().kind == TokenKind::symbol && ahead().text == "=";
    if (take_symbol("*")) {
      if (result.star || result.double_star) wrong("invalid syntax for function call expression");
      result.star = expression();
    } else if (take_symbol("**")) {
      if (result.double_star) wrong("invalid syntax for function call expression");
      result.double_star = expression();
    } else if (is_named) {
      if (result.double_star) wrong("invalid syntax for function call expression");
      std::string name = take().text;
      take();
      result.named.emplace_back(std::move(name), expression());
    } else {
      if (result.star || result.double_star || !result.named.empty())
        wrong("invalid syntax for function call expression");
      result.positional.push_back(expression());
    }
  }
  take();
  return result;
}

ExpressionPointer Parser::filters_and_tests(ExpressionPointer value) {
  while (true) {
    if (is_symbol("|")) {
      value = filter(std::move(value), false);
    } else if (is_name("is")) {
      value = test(std::move(value));
    } else if (is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

std::string Parser::dotted_name() {
  std::string name = expect_name();
  while (take_symbol(".")) name += "." + expect_name();
  return name;
}

ExpressionPointer Parser::filter(ExpressionPointer value, bool is_first) {
  while (is_first || take_symbol("|")) {
    is_first = false;
    auto result = make(Kind::filter, dotted_name());
    if (!is_soft_ && !has_filter(result->text)) note_unknown("filter", result->text);
    add(*result, std::move(value));
    if (is_symbol("(")) read_arguments(*result);
    value = std::move(result);
  }
  return value;
}

ExpressionPointer Parser::test(ExpressionPointer value) {
  take();
  const bool is_negated = take_name("not");
  auto result = make(Kind::test, dotted_name());
  if (!is_soft_ && !has_test(result->text)) note_unknown("test", result->text);
  add(*result, std::move(value));
  const TokenKind kind = current().kind;
  const bool starts_value = kind == TokenKind::name || kind == TokenKind::text || kind == TokenKind::integer ||
                            kind == TokenKind::real || is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    read_arguments(*result);
  } else if (starts_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) wrong("You cannot chain multiple tests with is");
    result->arguments.positional.push_back(postfix(primary()));
  }
  if (!is_negated) return result;
  auto negation = make(Kind::unary, "not");
  add(*negation, std::move(result));
  return negation;
}

}  // namespace attend::jinja
