#include <filesystem>

#include "attend/chat/chat_template.h"
#include "attend/io/files.h"
#include "io/printable.h"

namespace attend {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestConfig = int64_t{64} << 20;

/// A JSON object from a file of the folder; null if the file does not exist.
Json read_json(const fs::path& path) {
  if (!fs::exists(path)) return {};
  try {
    Json json = Json::parse(read_file(path.string(), kLargestConfig));
    require<FormatError>(json.is_object(), "expected a JSON object");
    return json;
  } catch (const JsonError& error) {
    throw_error<FormatError>(path.string(), ": ", error.what());
  }
}

/// The variables bos_token, eos_token… of tokenizer_config.json and special_tokens_map.json: text, or {"content":
/// text}.
Json special_tokens(const fs::path& folder) {
  Json result = Json::object();
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const Json config = read_json(folder / file);
    for (const auto& [name, value] : config.items()) {
      if (!name.ends_with("_token")) continue;
      const auto content = value.find("content");
      if (value.is_string()) result[name] = value.string();
      if (value.is_object() && content != value.end() && content->is_string()) result[name] = content->string();
    }
  }
  return result;
}

/// A template as text, or one of a list of {"name", "template"}.
std::optional<std::string> choose(const Json& value, std::string_view name, const fs::path& path) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.string();
  require<FormatError>(value.is_array(), path.string(), ": chat_template must be a string or a list, not ",
                       value.type_name());
  for (const Json& entry : value) {
    const bool is_valid = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                          entry.contains("template") && entry["template"].is_string();
    require<FormatError>(is_valid, path.string(), ": each chat template needs a name and a template");
    if (entry["name"].string() == name) return entry["template"].string();
  }
  throw_error<FormatError>(path.string(), ": there is no chat template ", in_quotes(name));
}

std::optional<std::string> template_text(const fs::path& folder, std::string_view name, fs::path& path) {
  const bool is_default = name == "default";
  path = is_default ? folder / "chat_template.jinja"
                    : folder / "additional_chat_templates" / (std::string(name) + ".jinja");
  if (fs::exists(path)) return read_file(path.string(), kLargestConfig);
  for (const char* file : {"chat_template.json", "tokenizer_config.json"}) {
    path = folder / file;
    const Json config = read_json(path);
    const auto found = config.find("chat_template");
    if (config.is_object() && found != config.end()) {
      if (auto text = choose(*found, name, path)) return text;
    }
  }
  return std::nullopt;
}

ChatTemplate parsed(std::string text, const fs::path& path, const fs::path& folder) {
  try {
    return ChatTemplate(std::move(text), {.special_tokens = special_tokens(folder), .limits = {}});
  } catch (const FormatError& error) {
    throw_error<FormatError>(path.string(), ": ", error.what());
  }
}

}  // namespace

std::optional<ChatTemplate> chat_template_of(const std::string& folder, std::string_view name) {
  require<FormatError>(name.find('/') == std::string_view::npos, "chat template: invalid name ", in_quotes(name));
  fs::path path;
  auto text = template_text(folder, name, path);
  if (!text) return std::nullopt;
  return parsed(std::move(*text), path, folder);
}

ChatTemplate read_chat_template(const std::string& file, const std::string& folder) {
  return parsed(read_file(file, kLargestConfig), file, folder);
}

}  // namespace attend
