#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// Commands and their options. CLI11 parses them in command_line.cpp alone: its header takes four seconds in every file
// that includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attend::cli {

/// A usage error: reported in one line on standard error, with exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Checks the text of a value, which it may change. Returns an error message, or "" if the value is valid.
using Check = std::function<std::string(std::string& text)>;

/// Accepts whole numbers from `smallest` to `largest`.
Check whole_number(uint64_t smallest, uint64_t largest);
/// Accepts numbers from `smallest` to `largest`.
Check number_between(double smallest, double largest);
/// Accepts only these words.
Check one_of(std::vector<std::string> words);

/// What the help text says about an option or an argument.
struct OptionHelp {
  std::vector<std::string> names;  ///< "-o" and "--output"; the name alone for an argument
  std::string value;               ///< stands for the value; empty for a flag
  std::string description;
  std::string heading;                ///< of the help text
  std::vector<std::string> choices;   ///< for completion
  bool accepts_only_choices = false;  ///< no other value
  bool is_argument = false, is_required = false, takes_many = false;
};

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  /// The words of one_of() are completed in the shell.
  Option* check(const Check& check);
  /// Words for completion in the shell.
  Option* suggest(std::vector<std::string> words);
  /// The placeholder for the value in help texts: "N", "FILE".
  Option* type_name(const std::string& name);
  Option* description(const std::string& text);
  /// The heading under which help lists the option; "" hides the option.
  Option* group(const std::string& heading);
  Option* required();
  /// The number of values the option takes.
  Option* expected(int count);
  Option* expected(int fewest, int most);
  /// If the option is repeated, keep all values.
  Option* take_all();
  /// If the option is repeated, the last value takes precedence.
  Option* take_last();
  Option* delimiter(char between);
  Option* excludes(Option* other);

  /// How many times the option was given.
  size_t count() const;

 private:
  friend class Command;

  CLI::Option* option_;
  std::vector<std::string> choices_;
  bool accepts_only_choices_ = false;
};

/// The program, or one of its commands.
class Command {
 public:
  Command(const std::string& description, const std::string& name);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command* add_subcommand(const std::string& name, const std::string& description);
  /// Names of options begin with -, names of positional arguments do not. Parsing the command line sets `value`.
  Option* add_option(const std::string& names, std::string& value, const std::string& help);
  Option* add_option(const std::string& names, int& value, const std::string& help);
  Option* add_option(const std::string& names, int64_t& value, const std::string& help);
  Option* add_option(const std::string& names, uint64_t& value, const std::string& help);
  Option* add_option(const std::string& names, double& value, const std::string& help);
  Option* add_option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Option* add_option(const std::string& names, std::optional<int64_t>& value, const std::string& help);
  Option* add_option(const std::string& names, std::optional<double>& value, const std::string& help);
  Option* add_option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option* add_option(const std::string& names, std::vector<int64_t>& values, const std::string& help);
  Option* add_option(const std::string& names, std::function<void(const std::string&)> take, const std::string& help);
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  Option* add_flag(const std::string& names, std::function<void()> act, const std::string& help);
  /// An option of this command, which must exist.
  Option* get_option(const std::string& name);

  /// Text at the end of the help.
  void footer(const std::string& text);
  /// The function that runs the command after the command line is parsed.
  void callback(std::function<void()> act);

  /// Leaves the command out of help texts, manual pages and completion.
  void hide();

  const std::string& name() const { return name_; }
  std::string description() const;
  std::string footer() const;
  /// The options and arguments of the help text, in its order.
  std::vector<OptionHelp> options() const;
  /// The subcommands that are not hidden.
  std::vector<const Command*> commands() const;
  /// The names of the subcommands.
  std::vector<std::string> command_names() const;
  bool has_option(const std::string& name) const;
  void set_version(const std::string& text);
  /// Parses the words after the program's name and runs the command. Returns false if --help or --version was printed
  /// instead. Throws UsageError.
  bool run(std::vector<std::string> words);
  /// The name of the command that run() found, or "".
  std::string chosen() const;

 private:
  Command(CLI::App* app, const std::string& name);
  Option* keep(CLI::Option* option);

  std::string name_;
  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<std::unique_ptr<Option>> options_;
};

}  // namespace attend::cli
