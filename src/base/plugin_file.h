#pragma once

#include <string>
#include <vector>

namespace attend {

/// The files where a plug-in called `file` is looked for, in this order: beside the program, in ../lib/attend from
/// there, beside this library, in attend/ from there, and last the bare name, for the default path of dlopen.
std::vector<std::string> plugin_places(const std::string& file);

/// Opens a shared library and keeps its symbols from the program's. Returns null, and dlerror() has the reason, if that
/// fails.
void* open_library(const std::string& file);

}  // namespace attend
