#include "attend/chat/chat_template.h"

#include "attend/text/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/parser.h"

namespace attend {
namespace {

constexpr size_t kLargestTemplate = size_t{4} << 20;

/// A value of JSON. Its size is that of the data, so it needs no budget.
jinja::Value to_value(const Json& json, jinja::Budget& budget) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return jinja::Value(json.boolean());
  if (json.is_string()) return jinja::plain_text(json.string());
  if (json.is_number_integer()) {
    const bool fits = !json.is_number_unsigned() || json.integer() >= 0;
    require<FormatError>(fits, "chat template: integers beyond 64 bits are not supported");
    return jinja::Value(json.integer());
  }
  if (json.is_number()) return jinja::Value(json.number());
  if (json.is_array()) {
    jinja::Values items;
    for (const Json& item : json) items.push_back(to_value(item, budget));
    return budget.list(std::move(items));
  }
  jinja::Dict dict;
  for (const auto& [key, value] : json.items()) dict.set(jinja::plain_text(key), to_value(value, budget), budget);
  return budget.dict(std::move(dict));
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm result{};
  localtime_r(&now, &result);
  return result;
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source;
  ChatTemplateOptions options;
  jinja::Statements statements;
};

ChatTemplate::ChatTemplate(std::string source, ChatTemplateOptions options) {
  require<FormatError>(source.size() <= kLargestTemplate, "chat template: it has more than ", kLargestTemplate,
                       " bytes");
  require<FormatError>(is_utf8(source), "chat template: it is not UTF-8");
  auto parsed = std::make_unique<Parsed>();
  try {
    parsed->statements = jinja::parse_template(source);
  } catch (const FormatError& error) {
    throw_error<FormatError>("chat template, ", error.what());
  }
  parsed->source = std::move(source);
  parsed->options = std::move(options);
  parsed_ = std::move(parsed);
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const ChatInput& input) const {
  const ChatTemplateLimits& limits = parsed_->options.limits;
  jinja::Interpreter interpreter({.budget = jinja::Budget(limits.steps, limits.bytes, limits.value_bytes),
                                  .output_bytes = limits.output_bytes,
                                  .depth = limits.depth,
                                  .now = input.now ? *input.now : local_time()});
  jinja::Budget unlimited(INT64_MAX, INT64_MAX, INT64_MAX);
  interpreter.set("messages", to_value(input.messages, unlimited));
  interpreter.set("tools", to_value(input.tools, unlimited));
  interpreter.set("documents", {});
  interpreter.set("add_generation_prompt", jinja::Value(input.add_generation_prompt));
  for (const Json* more : {&parsed_->options.special_tokens, &input.extra}) {
    for (const auto& [name, value] : more->items()) interpreter.set(name, to_value(value, unlimited));
  }
  try {
    return interpreter.render(parsed_->statements);
  } catch (const TemplateRefusal&) {
    throw;
  } catch (const FormatError& error) {
    throw_error<FormatError>("chat template, ", error.what());
  }
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

}  // namespace attend
