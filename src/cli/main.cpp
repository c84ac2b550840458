#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "backend/cpu/instruction_set.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/explain_print.h"
#include "cli/processes.h"
#include "cli/signals.h"
#include "distributed/group.h"

namespace {

using attend::cli::Command;
using attend::cli::fail;
using attend::cli::UsageError;

constexpr int kFailure = 1, kUsage = 2;

/// The path and the system's reason, without the prefix that std::filesystem adds.
std::string plain_message(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string();
  return (path.empty() ? "" : path + ": ") + error.code().message();
}

/// Levenshtein distance: the number of letters to change, insert or delete.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// The error for a first word that is neither a command nor an option; empty if it is one.
std::string complaint_about(const std::string& word, const Command& app) {
  const auto names = app.command_names();
  if (std::ranges::find(names, word) != names.end() || app.has_option(word)) return "";
  if (word.starts_with('-')) return "unknown option '" + word + "'; see attend --help";
  const auto nearest =
      std::ranges::min_element(names, {}, [&](const std::string& name) { return distance(word, name); });
  const bool near = distance(word, *nearest) <= std::max<size_t>(2, nearest->size() / 2);
  return "unknown command '" + word + "'" + (near ? "; did you mean '" + *nearest + "'?" : "; see attend --help");
}

/// Rewrites `help` and `help COMMAND` as `--help` and `COMMAND --help`.
std::vector<std::string> with_help_option(std::vector<std::string> words) {
  if (words[0] != "help") return words;
  const bool names_command = words.size() > 1 && words[1] != "help" && !words[1].starts_with('-');
  return names_command ? std::vector<std::string>{words[1], "--help"} : std::vector<std::string>{"--help"};
}

int run(int argc, char** argv) {
  Command app("Train, run and inspect Transformers", "attend");
  app.set_version("attend " ATTEND_VERSION);
  app.footer(
      "\nExample:\n  attend explain \"今天天气很好\"\n\n`attend help COMMAND` describes a command and its options.");
  attend::cli::add_train(app);
  attend::cli::add_demo(app);
  attend::cli::add_translate(app);
  attend::cli::add_generate(app);
  attend::cli::add_chat(app);
  attend::cli::add_fill(app);
  attend::cli::add_classify(app);
  attend::cli::add_embed(app);
  attend::cli::add_score(app);
  attend::cli::add_evaluate(app);
  attend::cli::add_compare(app);
  attend::cli::add_info(app);
  attend::cli::add_convert(app);
  attend::cli::add_serve(app);
  attend::cli::add_view(app);
  attend::cli::add_inspect(app);
  attend::cli::add_explain(app);
  attend::cli::add_tokenize(app);
  attend::cli::add_bench(app);
  attend::cli::add_plan(app);
  attend::cli::add_manual(app);

  if (argc < 2) return fail(kUsage, "expected a command; see attend --help");
  std::vector<std::string> words = with_help_option({argv + 1, argv + argc});
  if (const std::string complaint = complaint_about(words[0], app); !complaint.empty()) return fail(kUsage, complaint);
  attend::cli::join_processes(words);
  bool has_worked = false;  // not if the help or the version was printed
  try {
    has_worked = app.run(std::move(words));
  } catch (const UsageError& error) {
    const std::string name = app.chosen().empty() ? "" : app.chosen() + " ";
    return fail(kUsage, std::string(error.what()) + "; see attend " + name + "--help");
  }
  std::cout.flush();
  if (!std::cout) return fail(kFailure, "cannot write the output");
  if (has_worked) attend::distributed::leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  attend::cli::explain_bus_errors();
  try {
    attend::threads();
    attend::cpu::limited_set(std::getenv("ATTEND_CPU"), attend::cpu::machine_sets());
  } catch (const attend::Error& error) {  // an invalid environment variable is a usage error
    return fail(kUsage, error.what());
  }
  try {
    return run(argc, argv);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(kFailure, plain_message(error));
  } catch (const std::bad_alloc&) {
    return fail(kFailure, "out of memory");
  } catch (const std::exception& error) {
    return fail(kFailure, error.what());
  }
}
