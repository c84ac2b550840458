#pragma once

#include <string>
#include <vector>

// Commands that several processes run together, when a launcher such as mpirun or srun started them.
namespace attend::cli {

/// Connects the processes if a launcher started several and the command can use them. Then they agree on the widest
/// instruction set that all processors have, and divide the cores of each host. Throws Error if a process runs another
/// build of attend or has other arguments than the first one. `words` are the arguments of the program.
void join_processes(const std::vector<std::string>& words);

/// Gives each of several processes on this host cores of its own for its threads() threads, which it has to start yet:
/// see distributed::keep_to_cores().
void keep_to_own_cores();

/// "8 processes on 2 hosts, 4 threads each, instruction set avx2 (narrowest of avx2 and avx512)"; empty for one
/// process.
std::string processes_text();

bool is_first_process();

/// Returns the first process's answer in every process: only the first one has the standard input, for example.
bool first_process_says(bool own);

/// Prints the error as one line and ends this process with `code`; of several connected processes, all of them.
int fail(int code, std::string message);

}  // namespace attend::cli
