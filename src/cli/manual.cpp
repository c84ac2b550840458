#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "attend/io/files.h"
#include "attend/version.h"
#include "cli/commands.h"
#include "cli/completion.h"

namespace attend::cli {
namespace {

/// Text in roff: a hyphen of ASCII stays one, so that options can be copied, and no line begins with a control
/// character.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += std::string("\\&") + c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// "Train a model" as a part of a sentence: "train a model". "BLEU" and "T5's" stay.
std::string as_phrase(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

std::string as_sentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.ends_with('.') ? text : text + ".";
}

/// The text at the end of a help: examples are indented, everything else is prose.
struct Footer {
  std::vector<std::string> examples, paragraphs;
};

Footer parsed(const std::string& text) {
  Footer footer;
  std::istringstream in(text);
  bool is_in_paragraph = false;
  for (std::string line; std::getline(in, line);) {
    const bool is_prose = !line.empty() && !line.starts_with(' ') && line != "Examples:" && line != "Example:";
    if (line.starts_with("  ")) footer.examples.push_back(line.substr(2));
    if (is_prose && is_in_paragraph) footer.paragraphs.back() += "\n" + line;
    if (is_prose && !is_in_paragraph) footer.paragraphs.push_back(line);
    is_in_paragraph = is_prose;
  }
  return footer;
}

std::string heading(const std::string& name, const std::string& title) {
  // No date: the same sources give the same page.
  return ".TH " + name + " 1 \"\" \"attend " ATTEND_VERSION "\" \"" + title + "\"\n.ad l\n.nh\n";
}

std::string synopsis(const std::string& name, const std::vector<OptionHelp>& options) {
  std::string line = bold(name) + " [" + italic("options") + "]";
  for (const OptionHelp& option : options) {
    if (!option.is_argument) continue;
    const std::string word = italic(option.names[0]) + (option.takes_many ? "..." : "");
    line += option.is_required ? " " + word : " [" + word + "]";
  }
  return ".SH SYNOPSIS\n" + line + "\n";
}

std::string entry(const OptionHelp& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + (option.is_argument ? italic(name) : bold(name));
  }
  const bool shows_value = !option.value.empty() && !option.is_argument;
  std::string text =
      ".TP\n" + names + (shows_value ? " " + italic(option.value) : "") + "\n" + escaped(option.description);
  std::string missing;  // choices that the description does not name
  for (const std::string& choice : option.choices) {
    const bool is_named = option.description.find(choice) != std::string::npos || option.value.find(choice) == 0;
    if (!is_named && option.accepts_only_choices) missing += (missing.empty() ? "" : ", ") + choice;
  }
  if (!missing.empty()) text += "\nOne of: " + escaped(missing) + ".";
  return text + "\n";
}

std::string option_sections(const std::vector<OptionHelp>& options) {
  std::vector<std::string> headings;
  for (const OptionHelp& option : options) {
    const bool is_new = std::ranges::find(headings, option.heading) == headings.end();
    if (is_new && !option.heading.empty() && !option.is_argument) headings.push_back(option.heading);
  }
  std::string text;
  const auto add = [&](const std::string& title, const auto& is_part) {
    std::string entries;
    for (const OptionHelp& option : options) {
      if (is_part(option)) entries += entry(option);
    }
    if (!entries.empty()) text += ".SH " + escaped(title) + "\n" + entries;
  };
  add("ARGUMENTS", [](const OptionHelp& option) { return option.is_argument; });
  for (const std::string& heading : headings) {
    add(heading == "Options" ? "OPTIONS" : "OPTIONS: " + heading,
        [&](const OptionHelp& option) { return !option.is_argument && option.heading == heading; });
  }
  return text;
}

std::string paragraphs(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += ".PP\n" + escaped(text) + "\n";
  return result;
}

std::string examples(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : lines) text += escaped(line) + "\n";
  return text + ".fi\n";
}

constexpr const char* kExitStatus =
    ".SH \"EXIT STATUS\"\n"
    ".TP\n0\nSuccess.\n"
    ".TP\n1\nFailure; one line on standard error gives the reason.\n"
    ".TP\n2\nWrong use: an unknown command, option or value.\n";

/// The page attend(1) in roff, the format of man(1).
std::string program_page(const Command& program) {
  const std::string name = program.name();
  const Footer footer = parsed(program.footer());
  std::string description = program.description();
  if (description.starts_with(name + ": ")) description.erase(0, name.size() + 2);
  std::string commands;
  for (const Command* command : program.commands()) {
    commands +=
        ".TP\n.BR " + name + "\\-" + command->name() + " (1)\n" + escaped(as_sentence(command->description())) + "\n";
  }
  return heading(upper_case(name), "attend manual") + ".SH NAME\n" + name + " \\- " + escaped(as_phrase(description)) +
         "\n.SH SYNOPSIS\n" + bold(name) + " " + italic("command") + " [" + italic("options") + "] [" +
         italic("arguments") + "...]\n.SH DESCRIPTION\n" + escaped(as_sentence(description)) + "\n" +
         paragraphs(footer.paragraphs) + ".SH COMMANDS\n" + commands + option_sections(program.options()) +
         examples(footer.examples) + kExitStatus;
}

/// The page of a command, such as attend-train(1).
std::string command_page(const Command& program, const Command& command) {
  const std::string name = program.name() + "-" + command.name();
  const std::string description = command.description();
  const Footer footer = parsed(command.footer());
  return heading(upper_case(name), "attend manual") + ".SH NAME\n" + escaped(name) + " \\- " +
         escaped(as_phrase(description)) + "\n" + synopsis(program.name() + " " + command.name(), command.options()) +
         ".SH DESCRIPTION\n" + escaped(as_sentence(description)) + "\n" + paragraphs(footer.paragraphs) +
         option_sections(command.options()) + examples(footer.examples) + kExitStatus + ".SH \"SEE ALSO\"\n.BR " +
         program.name() + " (1)\n";
}

void write_manual(const Command& program, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path pages = fs::path(folder) / "man1";
  fs::create_directories(pages);
  write_file((pages / "attend.1").string(), program_page(program));
  for (const Command* command : program.commands()) {
    write_file((pages / ("attend-" + command->name() + ".1")).string(), command_page(program, *command));
  }
  write_file((fs::path(folder) / "attend.bash").string(), bash_completion(program));
  write_file((fs::path(folder) / "_attend").string(), zsh_completion(program));
  write_file((fs::path(folder) / "attend.fish").string(), fish_completion(program));
}

}  // namespace

void add_manual(Command& app) {
  Command* command = app.add_subcommand("manual", "Write the manual pages and the completions for shells");
  command->hide();
  const auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "The folder to write")->required()->type_name("FOLDER");
  command->callback([&app, folder] { write_manual(app, *folder); });
}

}  // namespace attend::cli
