#pragma once

#include <string>

// Recognizes files and folders of other programs, to tell the user what they are and what to do with them.
namespace attend::hub {

/// Describes a file that is not a model folder, and what to do with it: "is a GGUF file of llama.cpp, …". Examines the
/// content; empty if it is unknown.
std::string foreign_file(const std::string& path);

/// The same for the files in a folder: "is not a model folder: its file 'model.gguf' is …"; for a folder that contains
/// models, their names. Empty if all contents are unknown.
std::string foreign_folder(const std::string& folder);

/// Throws FormatError that describes `path`, which exists but is not a model.
[[noreturn]] void refuse_foreign(const std::string& path);

}  // namespace attend::hub
