#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "attend/inspect/arrays.h"
#include "attend/inspect/generation.h"
#include "attend/inspect/run.h"
#include "attend/io/json.h"

// Reads and checks the fields of requests.
namespace attend {

/// An error that is answered with an HTTP status.
struct ApiError : Error {
  ApiError(int code, const std::string& message) : Error(message), status(code) {}
  int status;
};

using Query = std::map<std::string, std::string>;

/// These throw ApiError with status 400 for a missing field or one of the wrong type.
Json parse_body(const std::string& body);
std::string text_field(const Json& json, const char* name);
std::optional<std::string> optional_text(const Json& json, const char* name);
/// `is_picture`: the model reads images, so "text" is not required.
RunOptions run_options(const Json& json, bool is_picture);
GenerationOptions generation_options(const Json& json);

std::optional<int64_t> query_number(const Query& query, const char* name);
int64_t required_number(const Query& query, const char* name);
/// Empty for "all" or if absent.
std::optional<int64_t> number_or_all(const Query& query, const char* name);
/// Parses rows=a:b and columns=a:b.
ArrayPart array_part(const Query& query);

}  // namespace attend
