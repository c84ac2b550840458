#pragma once

#include <string>

// Files and folders of other programs: named by what they hold, so that the user learns what to do with them.
namespace attend::hub {

/// What a file is that is no model to us, and what can be done with it: "is a GGUF file of llama.cpp, …". By its
/// content; empty if that tells nothing.
std::string foreign_file(const std::string& path);

/// The same of the files in a folder: "is not a model folder: its file 'model.gguf' is …"; for a folder with models
/// in it the names of these. Empty if nothing in it tells anything.
std::string foreign_folder(const std::string& folder);

/// Throws FormatError that says what is there instead of a model; `path` exists.
[[noreturn]] void refuse_foreign(const std::string& path);

}  // namespace attend::hub
