#pragma once

#include <string>

namespace attend::cli {

/// An origin as browsers send it: https://app.example, without a slash at the end. "*" and "null" stay. Throws
/// UsageError if the text is no origin.
std::string web_origin(const std::string& text);
/// A host name as the header Host has it, in lower case, without a port. Throws UsageError if the text is no host name.
std::string web_host(const std::string& text);

}  // namespace attend::cli
