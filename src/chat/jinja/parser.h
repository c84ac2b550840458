#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/lexer.h"
#include "chat/jinja/nodes.h"

namespace attend::jinja {

/// Parses a template by Jinja's grammar. Unknown filters and tests are errors, except inside `if`, where they fail only
/// if they are reached. Throws FormatError with the line.
Statements parse_template(std::string_view source);

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Statements parse();

 private:
  using Names = std::initializer_list<std::string_view>;
  /// Counts the nesting of statements and expressions while it lives.
  class Level;
  /// Sets a member for as long as it lives.
  template <class T>
  class Override {
   public:
    Override(T& member, T value) : member_(member), before_(std::exchange(member, value)) {}
    ~Override() { member_ = before_; }
    Override(const Override&) = delete;
    Override& operator=(const Override&) = delete;

   private:
    T &member_, before_;
  };

  // Statements: parser.cpp.
  Statements statements(Names ends);
  Statements body(Names ends);
  std::unique_ptr<Statement> statement();
  std::unique_ptr<Statement> print();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_generation();
  std::unique_ptr<Statement> parse_block();
  std::unique_ptr<Statement> parse_loop_control();
  void signature(MacroNode& macro);
  void macro_body(MacroNode& macro, std::string_view end);
  std::unique_ptr<Statement> make(Statement::Kind kind) const;

  // Expressions: expressions.cpp.
  ExpressionPointer expression(bool with_condition = true);
  ExpressionPointer conditional();
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filter = true);
  ExpressionPointer primary();
  ExpressionPointer postfix(ExpressionPointer value);
  ExpressionPointer filters_and_tests(ExpressionPointer value);
  ExpressionPointer filter(ExpressionPointer value, bool is_first);
  ExpressionPointer test(ExpressionPointer value);
  ExpressionPointer subscript(ExpressionPointer value);
  ExpressionPointer subscript_part(ExpressionPointer value);
  ExpressionPointer call(ExpressionPointer value);
  CallArguments call_arguments();
  void read_arguments(Expression& parent);
  void note_unknown(const char* kind, const std::string& name);
  enum class TupleKind { plain, without_condition, names };
  ExpressionPointer tuple(TupleKind kind, Names ends = {}, bool in_parentheses = false);
  ExpressionPointer list_literal();
  ExpressionPointer dict_literal();
  ExpressionPointer target(Names ends = {}, bool may_be_field = false);
  void check_target(const Expression& target) const;
  std::string dotted_name();
  ExpressionPointer make(Expression::Kind kind, std::string text = "") const;
  /// Appends a part and updates the depth.
  void add(Expression& parent, ExpressionPointer part) const;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool is_symbol(std::string_view text) const { return current().kind == TokenKind::symbol && current().text == text; }
  bool is_name(std::string_view text) const { return current().kind == TokenKind::name && current().text == text; }
  bool take_symbol(std::string_view text);
  bool take_name(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect(TokenKind kind, std::string_view what);
  std::string expect_name();
  [[noreturn]] void unexpected(std::string_view wanted) const;
  [[noreturn]] void wrong(const std::string& message) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0;
  int loops_ = 0;                     ///< for statements around this one, up to a macro
  bool is_soft_ = false;              ///< inside `if`: unknown filters fail only when they are reached
  std::vector<std::string> unknown_;  ///< errors about unknown filters and tests outside of `if`
  /// Which of varargs, kwargs and caller the current macro reads.
  struct Special {
    bool varargs = false, kwargs = false, caller = false;
  };
  Special special_;
};

class Parser::Level {
 public:
  explicit Level(Parser& parser);
  ~Level() { --parser_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Parser& parser_;
};

}  // namespace attend::jinja
