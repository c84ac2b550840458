#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attend/io/json.h"
#include "serve/http/message.h"

// Reads and checks the JSON bodies of requests to models.
namespace attend {

/// An error in a request, answered in OpenAI's shape.
struct RequestError : Error {
  RequestError(int http, const std::string& message, std::string field = {}, std::string kind = {})
      : Error(message), status(http), param(std::move(field)), code(std::move(kind)) {}
  int status;
  std::string param;  ///< the field at fault; may be empty
  std::string code;   ///< a word for programs; may be empty
};

/// {"error": {"message": …, "type": …, "param": …, "code": …}}
HttpResponse error_response(const RequestError& error);
/// The response to an error of a request to this path: on LibreTranslate's paths {"error": "message"}, as there.
HttpResponse error_response(const std::string& path, const RequestError& error);
/// The error in OpenAI's shape as JSON text, for an error in a stream.
std::string error_json(const RequestError& error);

struct NumberRange {
  double least = 0, most = 0;
};

/// The fields of a JSON object. Each function checks the type of one field; null means absent.
class RequestFields {
 public:
  /// Throws RequestError if the body is not a JSON object.
  explicit RequestFields(const std::string& body);
  /// The fields of a JSON object or, as curl -d a=b and curl -F a=b send them, of a form.
  static RequestFields json_or_form(const HttpRequest& request);
  /// The fields of an inner object, whose name is part of the messages.
  RequestFields(Json object, std::string name);

  /// The value; null if it is absent.
  const Json* find(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  std::string required_text(const std::string& name);
  std::optional<bool> flag(const std::string& name);
  std::optional<double> number(const std::string& name, NumberRange range);
  std::optional<int64_t> whole(const std::string& name, int64_t least, int64_t most);
  /// A string, or an array of at most `most` strings.
  std::vector<std::string> texts(const std::string& name, size_t most);
  /// Checks that `list`, a value of this field or a part of it, is a non-empty array of token ids below `vocab_size`.
  std::vector<int32_t> ids(const std::string& name, const Json& list, int64_t vocab_size) const;
  /// "all" or absent: empty; otherwise a whole number or an array of them, each from 0 to `most`.
  std::vector<int64_t> places(const std::string& name, int64_t most);
  /// Throws RequestError for the first field that no function above has asked for.
  void refuse_others() const;

  [[noreturn]] void fail(const std::string& name, const std::string& message) const;

 private:
  RequestFields() = default;
  void add_form_field(std::string name, std::string value);
  std::string full(const std::string& name) const { return prefix_ + name; }

  Json json_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace attend
