#include "chat_templates.h"

#include <ctime>
#include <set>

#include "attend/chat/chat_template.h"
#include "attend/io/files.h"

namespace attend::golden {
namespace {

void require_known(const Json& object, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) require<FormatError>(known.contains(key), "nothing checks ", key);
}

/// Midnight of a date such as 2026-01-02.
std::tm midnight(const std::string& date) {
  std::tm time{};
  require<FormatError>(strptime(date.c_str(), "%Y-%m-%d", &time) != nullptr, "now: expected a date, got ", date);
  return time;
}

/// The texts from the first difference on.
std::string difference(const std::string& ours, const std::string& expected) {
  size_t at = 0;
  while (at < ours.size() && at < expected.size() && ours[at] == expected[at]) ++at;
  const size_t begin = at < 20 ? 0 : at - 20;
  return "byte " + std::to_string(at) + ": expected " + Json(expected.substr(begin, 80)).dump() + ", got " +
         Json(ours.substr(begin, 80)).dump();
}

/// Empty if the case passes. The template is parsed again for each case, as its errors are those of a case.
std::string check_case(const Json& file, const Json& c) {
  require_known(c, {"name", "messages", "tools", "add_generation_prompt", "extra", "expected", "error", "error_type",
                    "python_text"});
  require<FormatError>(c.contains("expected") != c.contains("error_type"), "expected either a text or an error");
  const ChatInput input{.messages = c.at("messages"),
                        .tools = c.at("tools"),
                        .add_generation_prompt = c.at("add_generation_prompt").boolean(),
                        .extra = c.at("extra"),
                        .now = midnight(file.at("now").string())};
  std::string text, error;
  bool is_refusal = false;
  try {
    const ChatTemplate chat(file.at("template").string(), {.special_tokens = file.at("special_tokens"), .limits = {}});
    text = chat.render(input);
  } catch (const TemplateRefusal& refusal) {
    error = refusal.what();
    is_refusal = true;
  } catch (const FormatError& failure) {
    error = failure.what();
  }
  const bool fails = is_refusal || !error.empty();
  if (c.contains("expected")) {
    if (fails) return "expected text, got the error: " + error;
    return text == c.at("expected").string() ? "" : difference(text, c.at("expected").string());
  }
  if (!fails) return "expected the error '" + c.at("error").string() + "', got text";
  const bool wants_refusal = c.at("error_type").string() == "raise_exception";
  if (wants_refusal != is_refusal) return "expected " + c.at("error_type").string() + ", got the error: " + error;
  return !wants_refusal || error == c.at("error").string() ? "" : difference(error, c.at("error").string());
}

std::string check_file(const Json& file) {
  require_known(file,
                {"name", "source", "licence", "template", "special_tokens", "special_tokens_from", "now", "cases"});
  require<FormatError>(file.at("cases").size() > 0, "there are no cases");
  std::string first;
  int failed = 0;
  for (const Json& c : file.at("cases")) {
    const std::string problem = check_case(file, c);
    if (!problem.empty() && failed++ == 0) first = c.at("name").string() + ": " + problem;
  }
  return failed > 1 ? first + " (and " + std::to_string(failed - 1) + " more cases)" : first;
}

}  // namespace

bool is_chat_template_case(const std::filesystem::path& path) {
  return path.extension() == ".json" && path.parent_path().filename() == "chat_templates";
}

std::string check_chat_template(const std::string& path) {
  try {
    return check_file(Json::parse(read_file(path)));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace attend::golden
