#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

namespace attend::cli {
namespace {

template <class T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

template <class T>
Check number_from(const char* kind, T smallest, T largest) {
  return [=](std::string& text) -> std::string {
    const std::optional<T> value = number_of<T>(text);
    if (value && *value >= smallest && *value <= largest) return "";
    std::ostringstream message;
    message << "expected a " << kind << " from " << smallest << " to " << largest << ", got '" << text << "'";
    return message.str();
  };
}

/// A type of its own, by which Option::check() recognises it.
struct OneOf {
  std::vector<std::string> words;

  std::string operator()(const std::string& text) const {
    std::string list;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == text) return "";
      list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    }
    return "expected " + list + ", got '" + text + "'";
  }
};

OptionHelp help_of(const CLI::Option& option) {
  OptionHelp help;
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  help.is_argument = help.names.empty();
  if (help.is_argument) help.names.push_back(option.get_name(true));
  if (option.get_expected_max() > 0) help.value = option.get_type_name();
  help.description = option.get_description();
  help.heading = option.get_group();
  help.is_required = option.get_required();
  help.takes_many = option.get_expected_max() > 1;
  return help;
}

}  // namespace

Check whole_number(uint64_t smallest, uint64_t largest) { return number_from("whole number", smallest, largest); }
Check number_between(double smallest, double largest) { return number_from("number", smallest, largest); }
Check one_of(std::vector<std::string> words) { return OneOf{std::move(words)}; }

Option* Option::check(const Check& check) {
  option_->check(CLI::Validator(check, ""));
  if (const OneOf* one_of = check.target<OneOf>()) {
    choices_ = one_of->words;
    accepts_only_choices_ = true;
  }
  return this;
}
Option* Option::suggest(std::vector<std::string> words) {
  choices_ = std::move(words);
  return this;
}
Option* Option::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}
Option* Option::description(const std::string& text) {
  option_->description(text);
  return this;
}
Option* Option::group(const std::string& heading) {
  option_->group(heading);
  return this;
}
Option* Option::required() {
  option_->required();
  return this;
}
Option* Option::expected(int count) {
  option_->expected(count);
  return this;
}
Option* Option::expected(int fewest, int most) {
  option_->expected(fewest, most);
  return this;
}
Option* Option::take_all() {
  option_->take_all();
  return this;
}
Option* Option::take_last() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return this;
}
Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}
Option* Option::excludes(Option* other) {
  option_->excludes(other->option_);
  return this;
}
size_t Option::count() const { return option_->count(); }

Command::Command(const std::string& description, const std::string& name)
    : name_(name), owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()) {
  app_->require_subcommand(1);
}
Command::Command(CLI::App* app, const std::string& name) : name_(name), app_(app) {}
Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  commands_.emplace_back(new Command(app_->add_subcommand(name, description), name));
  return commands_.back().get();
}
Option* Command::keep(CLI::Option* option) {
  options_.push_back(std::make_unique<Option>(option));
  return options_.back().get();
}

Option* Command::add_option(const std::string& names, std::string& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, int& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, int64_t& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, uint64_t& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, double& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, std::optional<std::string>& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, std::optional<int64_t>& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, std::optional<double>& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}
Option* Command::add_option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return keep(app_->add_option(names, values, help));
}
Option* Command::add_option(const std::string& names, std::vector<int64_t>& values, const std::string& help) {
  return keep(app_->add_option(names, values, help));
}
Option* Command::add_option(const std::string& names, std::function<void(const std::string&)> take,
                            const std::string& help) {
  return keep(app_->add_option_function<std::string>(names, std::move(take), help));
}
Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(app_->add_flag(names, value, help));
}
Option* Command::add_flag(const std::string& names, std::function<void()> act, const std::string& help) {
  return keep(app_->add_flag_callback(names, std::move(act), help));
}
Option* Command::get_option(const std::string& name) { return keep(app_->get_option(name)); }

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::hide() { app_->group(""); }
std::string Command::description() const { return app_->get_description(); }
std::string Command::footer() const { return app_->get_footer(); }

std::vector<OptionHelp> Command::options() const {
  std::vector<OptionHelp> all;
  const CLI::App& app = *app_;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* one) { return !one->get_group().empty(); })) {
    all.push_back(help_of(*option));
    for (const auto& ours : options_) {
      if (ours->option_ != option || ours->choices_.empty()) continue;
      all.back().choices = ours->choices_;
      all.back().accepts_only_choices = ours->accepts_only_choices_;
    }
  }
  return all;
}
std::vector<const Command*> Command::commands() const {
  std::vector<const Command*> shown;
  for (const auto& command : commands_) {
    if (!command->app_->get_group().empty()) shown.push_back(command.get());
  }
  return shown;
}

void Command::callback(std::function<void()> act) { app_->callback(std::move(act)); }

std::vector<std::string> Command::command_names() const {
  std::vector<std::string> names;
  for (const auto& command : commands_) names.push_back(command->name());
  return names;
}
bool Command::has_option(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }
void Command::set_version(const std::string& text) {
  app_->set_version_flag("--version", text, "Print the version and exit");
}
bool Command::run(std::vector<std::string> words) {
  std::ranges::reverse(words);  // CLI11 expects them in reverse order
  try {
    app_->parse(words);
    return true;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extra = app_->remaining(true);
    const std::string first = extra.empty() ? "" : extra.front();
    throw UsageError((first.starts_with('-') ? "unknown option '" : "unexpected argument '") + first + "'");
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const size_t colon = text.find(':');
    const bool is_repeated = text.find("At Most 1 required") != std::string::npos && colon != std::string::npos;
    throw UsageError(is_repeated ? text.substr(0, colon) + " is given more than once" : text);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw UsageError(error.what());
    app_->exit(error);  // prints the help or the version
    return false;
  }
}
std::string Command::chosen() const {
  const auto commands = app_->get_subcommands();
  return commands.empty() ? "" : commands.front()->get_name();
}

}  // namespace attend::cli
