#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "attend/inspect/arrays.h"
#include "attend/inspect/generation.h"
#include "attend/inspect/run.h"
#include "attend/io/json.h"

// What requests say, checked.
namespace attend {

/// A request that cannot be answered, and the status that says so.
struct ApiError : Error {
  ApiError(int code, const std::string& message) : Error(message), status(code) {}
  int status;
};

using Query = std::map<std::string, std::string>;

/// Throw ApiError, 400, for what is missing or not what it should be.
Json parse_body(const std::string& body);
std::string text_field(const Json& json, const char* name);
std::optional<std::string> optional_text(const Json& json, const char* name);
/// A picture has no text.
RunOptions run_options(const Json& json, bool is_picture);
GenerationOptions generation_options(const Json& json);

std::optional<int64_t> query_number(const Query& query, const char* name);
int64_t required_number(const Query& query, const char* name);
/// "all" or absent: none.
std::optional<int64_t> number_or_all(const Query& query, const char* name);
/// rows=a:b and columns=a:b.
ArrayPart array_part(const Query& query);

}  // namespace attend
