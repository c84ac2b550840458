#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "testing/temporary_folder.h"

namespace attend::testing {

struct Finished {
  int code = -1;  ///< exit status, or -1 if a signal ended the process
  std::string out, err;
};

struct ProcessOptions {
  std::string input{};                                             ///< standard input
  std::vector<std::pair<std::string, std::string>> environment{};  ///< added to this process's environment
  std::string out_path{};                                          ///< file to redirect standard output to
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Replaces the calling (child) process; never returns.
[[noreturn]] inline void execute(const std::vector<std::string>& command, const ProcessOptions& options) {
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

inline int exit_code(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Runs a program and waits for it.
inline Finished run(const std::vector<std::string>& command, const ProcessOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string in = folder.file("in"), out = options.out_path.empty() ? folder.file("out") : options.out_path;
  std::ofstream(in, std::ios::binary) << options.input;
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(folder.file("err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execute(command, options);
  }
  const int code = exit_code(child);
  return {code, options.out_path.empty() ? file_text(out) : "", file_text(folder.file("err"))};
}

/// Runs a program with a terminal as its standard output.
inline Finished run_on_terminal(const std::vector<std::string>& command, const ProcessOptions& options = {}) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return {};
  const int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const pid_t child = fork();
  if (child == 0) {
    dup2(slave, STDOUT_FILENO);
    execute(command, options);
  }
  close(slave);
  Finished result;
  char buffer[4096];
  for (ssize_t count; (count = read(terminal, buffer, sizeof buffer)) > 0;) {
    result.out.append(buffer, static_cast<size_t>(count));
  }
  close(terminal);
  result.code = exit_code(child);
  return result;
}

}  // namespace attend::testing
