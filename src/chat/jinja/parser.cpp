#include "chat/jinja/parser.h"

#include <algorithm>

#include "attend/base/error.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

// Nesting of statements and parentheses; each level costs the parser about a dozen calls.
constexpr int kDeepestNesting = 100;

}  // namespace

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (parser.level_ >= kDeepestNesting) parser.wrong("the template is nested too deeply");
  ++parser.level_;
}

Statements parse_template(std::string_view source) { return Parser(tokenize(source)).parse(); }

Statements Parser::parse() {
  Statements result = statements({});
  if (current().kind != TokenKind::end) unexpected("end of template");
  if (!unknown_.empty()) throw FormatError(unknown_.front());
  return result;
}

std::unique_ptr<Statement> Parser::make(Statement::Kind kind) const {
  auto result = std::make_unique<Statement>();
  result->kind = kind;
  result->line = current().line;
  return result;
}

/// Statements up to one of the tags in `ends`, whose block_begin is consumed, or up to the end of the template.
Statements Parser::statements(Names ends) {
  Level level(*this);
  Statements result;
  while (current().kind != TokenKind::end) {
    if (current().kind == TokenKind::data) {
      result.push_back(make(Statement::Kind::data));
      result.back()->text = take().text;
    } else if (current().kind == TokenKind::print_begin) {
      result.push_back(print());
    } else {
      expect(TokenKind::block_begin, "a tag");
      if (std::ranges::any_of(ends, [this](std::string_view end) { return is_name(end); })) return result;
      result.push_back(statement());
      expect(TokenKind::block_end, "end of statement block");
    }
  }
  if (ends.size() > 0) {
    wrong("Unexpected end of template. Jinja was looking for the tag '" + std::string(*(ends.end() - 1)) + "'");
  }
  return result;
}

/// The body of a block: after its opening tag, up to one of the end tags, at which the parser stops.
Statements Parser::body(Names ends) {
  take_symbol(":");
  expect(TokenKind::block_end, "end of statement block");
  return statements(ends);
}

std::unique_ptr<Statement> Parser::print() {
  auto result = make(Statement::Kind::print);
  take();
  result->values.push_back(tuple(TupleKind::plain));
  expect(TokenKind::print_end, "end of print statement");
  return result;
}

std::unique_ptr<Statement> Parser::statement() {
  if (current().kind != TokenKind::name) wrong("tag name expected");
  const std::string& name = current().text;
  if (name == "for") return parse_for();
  if (name == "if") return parse_if();
  if (name == "set") return parse_set();
  if (name == "macro") return parse_macro();
  if (name == "call") return parse_call();
  if (name == "filter") return parse_filter_block();
  if (name == "with") return parse_with();
  if (name == "generation") return parse_generation();
  if (name == "block") return parse_block();
  if (name == "break" || name == "continue") return parse_loop_control();
  if (name == "print") {
    auto result = make(Statement::Kind::print);
    take();
    do result->values.push_back(expression());
    while (take_symbol(","));
    return result;
  }
  for (const char* other : {"include", "import", "from", "extends", "autoescape"}) {
    if (name == other) wrong("the tag '" + name + "' is not supported in chat templates");
  }
  wrong("Encountered unknown tag '" + name + "'.");
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto result = make(Statement::Kind::for_loop);
  take();
  result->target = target({"in"});
  if (!take_name("in")) unexpected("'in'");
  result->values.push_back(tuple(TupleKind::without_condition, {"recursive"}));
  const Override soft(is_soft_, false);
  result->values.push_back(take_name("if") ? expression() : nullptr);
  result->is_recursive = take_name("recursive");
  {
    const Override loops(loops_, loops_ + 1);
    result->body = body({"else", "endfor"});
  }
  const Override loops(loops_, 0);  // the else part is outside the loop
  if (take().text == "else") {
    result->otherwise = body({"endfor"});
    take();
  }
  return result;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto result = make(Statement::Kind::if_else);
  const Override soft(is_soft_, true);
  take();
  while (true) {
    ExpressionPointer test = tuple(TupleKind::without_condition);
    result->branches.push_back({std::move(test), {}});
    result->branches.back().body = body({"elif", "else", "endif"});
    const std::string end = take().text;
    if (end == "elif") continue;
    if (end == "else") {
      result->branches.push_back({nullptr, body({"endif"})});
      take();
    }
    return result;
  }
}

std::unique_ptr<Statement> Parser::parse_set() {
  auto result = make(Statement::Kind::set);
  take();
  result->target = target({}, true);
  if (take_symbol("=")) {
    result->values.push_back(tuple(TupleKind::plain));
    return result;
  }
  result->kind = Statement::Kind::set_block;
  result->values.push_back(is_symbol("|") ? filter(nullptr, false) : nullptr);
  const Override soft(is_soft_, false);
  result->body = body({"endset"});
  take();
  return result;
}

/// The parameters of a macro or call block, in parentheses.
void Parser::signature(MacroNode& macro) {
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (!macro.parameters.empty()) expect_symbol(",");
    macro.parameters.push_back(expect_name());
    if (std::ranges::count(macro.parameters, macro.parameters.back()) > 1) wrong("duplicate argument in a macro");
    if (take_symbol("=")) {
      macro.defaults.push_back(expression());
    } else if (!macro.defaults.empty()) {
      wrong("non-default argument follows default argument");
    }
  }
  take();
}

void Parser::macro_body(MacroNode& macro, std::string_view end) {
  const Special outer = std::exchange(special_, {});
  const Override loops(loops_, 0);
  const Override soft(is_soft_, false);
  macro.body = body({end});
  take();
  const auto is_parameter = [&](const char* special) { return std::ranges::count(macro.parameters, special) > 0; };
  macro.uses_varargs = special_.varargs && !is_parameter("varargs");
  macro.uses_kwargs = special_.kwargs && !is_parameter("kwargs");
  macro.uses_caller = special_.caller && !is_parameter("caller");
  special_ = {.varargs = special_.varargs || outer.varargs,
              .kwargs = special_.kwargs || outer.kwargs,
              .caller = special_.caller || outer.caller};
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto result = make(Statement::Kind::macro);
  take();
  const auto macro = std::make_shared<MacroNode>();
  macro->name = expect_name();
  signature(*macro);
  macro_body(*macro, "endmacro");
  result->macro = macro;
  return result;
}

std::unique_ptr<Statement> Parser::parse_call() {
  auto result = make(Statement::Kind::call_block);
  take();
  const auto macro = std::make_shared<MacroNode>();
  macro->name = "caller";
  if (is_symbol("(")) signature(*macro);
  result->values.push_back(expression());
  if (result->values[0]->kind != Expression::Kind::call) wrong("expected call");
  macro_body(*macro, "endcall");
  result->macro = macro;
  return result;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto result = make(Statement::Kind::filter_block);
  take();
  result->values.push_back(filter(nullptr, true));
  const Override soft(is_soft_, false);
  result->body = body({"endfilter"});
  take();
  return result;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto result = make(Statement::Kind::with);
  take();
  while (current().kind != TokenKind::block_end && !is_symbol(":")) {
    if (!result->targets.empty()) expect_symbol(",");
    result->targets.push_back(target());
    expect_symbol("=");
    result->values.push_back(expression());
  }
  const Override soft(is_soft_, false);
  result->body = body({"endwith"});
  take();
  return result;
}

std::unique_ptr<Statement> Parser::parse_generation() {
  auto result = make(Statement::Kind::scope);
  take();
  const Override loops(loops_, 0);
  const Override soft(is_soft_, false);
  result->body = body({"endgeneration"});
  take();
  return result;
}

std::unique_ptr<Statement> Parser::parse_block() {
  auto result = make(Statement::Kind::block);
  take();
  result->text = expect_name();
  while (take_name("scoped") || take_name("required")) {
  }
  const Override loops(loops_, 0);
  const Override soft(is_soft_, false);
  result->body = body({"endblock"});
  take();
  take_name(result->text);
  return result;
}

std::unique_ptr<Statement> Parser::parse_loop_control() {
  auto result = make(current().text == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop);
  if (loops_ == 0) wrong("'" + current().text + "' outside of a loop");
  take();
  return result;
}

bool Parser::take_symbol(std::string_view text) { return is_symbol(text) ? (take(), true) : false; }
bool Parser::take_name(std::string_view text) { return is_name(text) ? (take(), true) : false; }
void Parser::expect_symbol(std::string_view text) {
  if (!take_symbol(text)) unexpected("'" + std::string(text) + "'");
}
void Parser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) unexpected(what);
  take();
}
std::string Parser::expect_name() {
  if (current().kind != TokenKind::name) unexpected("a name");
  return take().text;
}
void Parser::unexpected(std::string_view wanted) const {
  std::string got = python_quoted(current().text);
  if (current().kind == TokenKind::print_end) got = "end of print statement";
  if (current().kind == TokenKind::block_end) got = "end of statement block";
  if (current().kind == TokenKind::end) got = "end of template";
  wrong("expected " + std::string(wanted) + ", got " + got);
}
void Parser::wrong(const std::string& message) const {
  throw_error<FormatError>("line ", current().line, ": ", message);
}

}  // namespace attend::jinja
