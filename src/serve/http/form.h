#pragma once

#include <string>
#include <string_view>
#include <vector>

// The bodies of forms. Untrusted input.
namespace attend {

struct FormField {
  std::string name, value;
};

/// The fields of a form, name=value&…, in their order; names may repeat. Throws FormatError for a % without two
/// hexadecimal digits.
std::vector<FormField> read_form_body(std::string_view body);
/// The fields of a form of the type multipart/form-data (RFC 7578). Throws FormatError if it is malformed or has a
/// file.
std::vector<FormField> read_multipart(std::string_view body, std::string_view content_type);

}  // namespace attend
