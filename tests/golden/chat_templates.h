#pragma once

#include <filesystem>
#include <string>

namespace attend::golden {

/// Whether a file has a chat template with reference renderings: a JSON file in a folder chat_templates.
bool is_chat_template_case(const std::filesystem::path& path);

/// Empty if every case of the file passes, otherwise the first error.
std::string check_chat_template(const std::string& path);

}  // namespace attend::golden
