#include "cli/completion.h"

#include <algorithm>
#include <string_view>

namespace attend::cli {
namespace {

constexpr std::string_view kOrigin = " completion for attend, made from the options of its commands.\n";

/// Whether a value is the name of a file or a folder, by the word that stands for it in the help.
bool takes_files(const OptionHelp& option) {
  for (const char* word : {"FILE", "FOLDER", "DIR", "MODEL", "SOURCE"}) {
    if (option.value.find(word) != std::string::npos) return true;
  }
  return option.is_argument && !option.accepts_only_choices && option.choices.empty();
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::vector<std::string> names_of(const std::vector<const Command*>& commands) {
  std::vector<std::string> names;
  for (const Command* command : commands) names.push_back(command->name());
  return names;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options()) {
    if (!option.is_argument) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// ---- bash ----

/// What comes after an option with a value: its choices, files, or nothing to complete.
std::string bash_values(const Command& command) {
  std::string text, files, others;
  for (const OptionHelp& option : command.options()) {
    if (option.is_argument || option.value.empty()) continue;
    const std::string names = joined(option.names, "|");
    if (!option.choices.empty()) {
      text += "        " + names + ") _attend_words \"" + joined(option.choices, " ") + "\"";
      text += takes_files(option) ? "; _attend_files; return ;;\n" : "; return ;;\n";
    } else {
      std::string& list = takes_files(option) ? files : others;
      list += (list.empty() ? "" : "|") + names;
    }
  }
  if (!files.empty()) text += "        " + files + ") _attend_files; return ;;\n";
  if (!others.empty()) text += "        " + others + ") return ;;\n";
  return text.empty() ? "" : "      case $previous in\n" + text + "      esac\n";
}

std::string bash_command(const Command& command) {
  std::string arguments, files;
  for (const OptionHelp& option : command.options()) {
    if (!option.is_argument) continue;
    if (!option.choices.empty()) arguments += "      _attend_words \"" + joined(option.choices, " ") + "\"\n";
    if (takes_files(option)) files = "      _attend_files\n";
  }
  return "    " + command.name() + ")\n" + bash_values(command) + "      if [[ $word == -* ]]; then _attend_words \"" +
         joined(option_names(command), " ") + "\"; return; fi\n" + arguments + files + "      ;;\n";
}

// ---- zsh ----

/// Text within a quoted specification, where [ ] and : have a meaning.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return replaced(result, "'", "'\\''");
}

std::string zsh_values(const OptionHelp& option) {
  const std::string words = option.choices.empty() ? "" : "(" + joined(option.choices, " ") + ")";
  if (words.empty()) return takes_files(option) ? "_files" : " ";
  return takes_files(option) ? "{compadd -- " + joined(option.choices, " ") + "; _files}" : words;
}

std::string zsh_option(const OptionHelp& option) {
  const std::string value =
      option.value.empty() ? "" : ":" + zsh_text(option.value) + ":" + replaced(zsh_values(option), "'", "'\\''");
  std::string text;
  for (const std::string& name : option.names) {
    text += " \\\n        '" + std::string(option.takes_many ? "*" : "") + name + "[" + zsh_text(option.description) +
            "]" + value + "'";
  }
  return text;
}

std::string zsh_command(const Command& command) {
  std::string text = "    " + command.name() + ")\n      _arguments -s";
  int position = 0;
  for (const OptionHelp& option : command.options()) {
    if (!option.is_argument) {
      text += zsh_option(option);
      continue;
    }
    const std::string place = option.takes_many ? "*" : std::to_string(++position);
    text += " \\\n        '" + place + ":" + zsh_text(option.names[0]) + ":" + zsh_values(option) + "'";
  }
  return text + "\n      ;;\n";
}

// ---- fish ----

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_names(const OptionHelp& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return text;
}

std::string fish_option(const OptionHelp& option, const std::string& condition) {
  std::string text = "complete -c attend -n " + fish_text(condition);
  if (!option.is_argument) text += fish_names(option);
  if (!option.value.empty() && !option.is_argument) text += takes_files(option) ? " -r -F" : " -x";
  if (option.is_argument && takes_files(option)) text += " -F";
  if (!option.choices.empty()) text += " -a " + fish_text(joined(option.choices, " "));
  return text + " -d " + fish_text(option.description) + "\n";
}

}  // namespace

std::string bash_completion(const Command& program) {
  const std::string commands = joined(names_of(program.commands()), " ");
  std::string text = "# bash" + std::string(kOrigin);
  text += R"(
_attend_words() {
  local found
  mapfile -t found < <(compgen -W "$1" -- "$word")
  COMPREPLY+=("${found[@]}")
}

_attend_files() {
  local found
  compopt -o filenames 2>/dev/null
  mapfile -t found < <(compgen -f -- "$word")
  COMPREPLY+=("${found[@]}")
}

_attend() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  # --option=value is three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [[ $COMP_CWORD -eq 1 ]]; then
)";
  text += "    _attend_words \"" + commands + " help " + joined(option_names(program), " ") + "\"\n    return\n  fi\n";
  text += "  case ${COMP_WORDS[1]} in\n    help) _attend_words \"" + commands + "\" ;;\n";
  for (const Command* command : program.commands()) text += bash_command(*command);
  return text + "  esac\n}\n\ncomplete -F _attend attend\n";
}

std::string zsh_completion(const Command& program) {
  std::string text = "#compdef attend\n# zsh" + std::string(kOrigin);
  text += "\n_attend_commands() {\n  local -a commands=(\n";
  for (const Command* command : program.commands()) {
    text += "    '" + command->name() + ":" + zsh_text(command->description()) + "'\n";
  }
  text += "    'help:Print the help of a command'\n  )\n  _describe -t commands command commands\n}\n\n_attend() {\n";
  text += "  local curcontext=$curcontext state line\n  typeset -A opt_args\n  _arguments -C";
  for (const OptionHelp& option : program.options()) text += zsh_option(option);
  text += " \\\n        '1:command:_attend_commands' \\\n        '*::argument:->arguments' && return\n";
  text += "  [[ $state == arguments ]] || return\n  case $words[1] in\n    help) _attend_commands ;;\n";
  for (const Command* command : program.commands()) text += zsh_command(*command);
  // Autoloaded, the file is the function's body and is called; sourced, it only registers the function.
  return text +
         "  esac\n}\n\nif [[ $funcstack[1] == _attend ]]; then _attend \"$@\"; else compdef _attend attend; fi\n";
}

std::string fish_completion(const Command& program) {
  std::string text = "# fish" + std::string(kOrigin) + "\ncomplete -c attend -f\n";
  const std::string first = "__fish_use_subcommand";
  for (const OptionHelp& option : program.options()) text += fish_option(option, first);
  for (const Command* command : program.commands()) {
    text += "complete -c attend -n " + first + " -a " + command->name() + " -d " + fish_text(command->description());
    text += "\n";
  }
  text += "complete -c attend -n " + first + " -a help -d 'Print the help of a command'\n";
  text += "complete -c attend -n '__fish_seen_subcommand_from help' -a " +
          fish_text(joined(names_of(program.commands()), " ")) + "\n";
  for (const Command* command : program.commands()) {
    const std::string condition = "__fish_seen_subcommand_from " + command->name();
    for (const OptionHelp& option : command->options()) text += fish_option(option, condition);
  }
  return text;
}

}  // namespace attend::cli
