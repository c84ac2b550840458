#include "attend/grammar/tool_calls.h"

#include <algorithm>
#include <utility>

#include "attend/base/random.h"

namespace attend {
namespace {

constexpr std::string_view kBegin = "<tool_call>", kFinish = "</tool_call>", kPythonTag = "<|python_tag|>";
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Length of the longest suffix that a call may begin with: white space and a part of `marker`.
size_t held_back(std::string_view text, std::string_view marker) {
  size_t part = std::min(marker.size() - 1, text.size());
  while (!text.ends_with(marker.substr(0, part))) --part;
  const size_t last = text.substr(0, text.size() - part).find_last_not_of(kBlanks);
  return text.size() - (last == std::string_view::npos ? 0 : last + 1);
}

std::string call_id(uint64_t seed, int64_t index) {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string result = "call_";
  for (uint64_t i = 0; i < 24; ++i)
    result += kLetters[philox(seed, static_cast<uint64_t>(index), i)[0] % kLetters.size()];
  return result;
}

/// Length of the JSON object at the start of a text; 0 if it does not end.
size_t object_length(std::string_view text) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

/// The objects of a text that consists of objects with ; between them; empty if it does not.
std::vector<std::string_view> objects_of(std::string_view text) {
  std::vector<std::string_view> result;
  while (true) {
    text = trimmed(text);
    const size_t length = text.starts_with('{') ? object_length(text) : 0;
    if (length == 0) return {};
    result.push_back(text.substr(0, length));
    text = trimmed(text.substr(length));
    if (text.empty()) return result;
    if (!text.starts_with(';')) return {};
    text.remove_prefix(1);
    if (trimmed(text).empty()) return result;
  }
}

}  // namespace

ToolFormat tool_format(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
  if (has(kBegin)) return ToolFormat::hermes;
  const bool is_llama = has(kPythonTag) || (has("ipython") && has("\"parameters\""));
  return is_llama ? ToolFormat::llama3 : ToolFormat::none;
}

ToolCallParser::Piece ToolCallParser::push(std::string_view text) {
  held_ += text;
  Piece piece;
  if (options_.format == ToolFormat::hermes) {
    read_hermes(piece, false);
  } else if (options_.format == ToolFormat::llama3) {
    read_llama3(piece, false);
  } else {
    piece.text = std::exchange(held_, "");
  }
  return piece;
}

ToolCallParser::Piece ToolCallParser::finish() {
  Piece piece;
  if (options_.format == ToolFormat::hermes) {
    read_hermes(piece, true);
  } else if (options_.format == ToolFormat::llama3) {
    read_llama3(piece, true);
  }
  piece.text += std::exchange(held_, "");
  return piece;
}

/// Adds the call of a JSON text. False if it is not a call.
bool ToolCallParser::add_call(std::string_view json, Piece& piece, const char* key) {
  const Json call = Json::parse_or_null(json);
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
  const char* found = call.contains(key) ? key : call.contains("arguments") ? "arguments" : "parameters";
  const Json arguments = call.value<Json>(found, Json::object());
  if (!arguments.is_object()) return false;
  if (options_.is_parallel || count_ == 0) {
    piece.calls.push_back({call_id(options_.seed, count_), call["name"].string(), arguments.dump()});
    ++count_;
  }
  return true;
}

void ToolCallParser::read_hermes(Piece& piece, bool is_last) {
  while (true) {
    const size_t begin = held_.find(kBegin);
    if (begin == std::string::npos) {
      const size_t keep = is_last ? 0 : held_back(held_, kBegin);
      std::string text = held_.substr(0, held_.size() - keep);
      held_.erase(0, text.size());
      const bool is_blank = trimmed(text).empty();
      if (!is_blank || count_ == 0) piece.text += text;
      return;
    }
    const size_t content = begin + kBegin.size(), end = held_.find(kFinish, content);
    const bool is_open = end == std::string::npos;
    if (is_open && !is_last) {
      const std::string_view before = std::string_view(held_).substr(0, begin);
      const size_t known = before.size() - held_back(before, " ");
      piece.text += held_.substr(0, known);
      held_.erase(0, known);
      return;
    }
    const size_t after = is_open ? held_.size() : end + kFinish.size();
    const std::string call = held_.substr(content, (is_open ? held_.size() : end) - content);
    const std::string before = held_.substr(0, begin);
    Piece own;
    if (add_call(call, own, "arguments")) {
      piece.text += before.substr(0, before.find_last_not_of(kBlanks) + 1);
      piece.calls.insert(piece.calls.end(), own.calls.begin(), own.calls.end());
    } else {
      piece.text += held_.substr(0, after);
    }
    held_.erase(0, after);
  }
}

void ToolCallParser::read_llama3(Piece& piece, bool is_last) {
  const std::string_view start = trimmed(held_);
  const bool has_tag = start.starts_with(kPythonTag);
  const bool may_be_call = start.starts_with('{') || has_tag || kPythonTag.starts_with(start);
  is_text_ |= !may_be_call;
  if (is_text_) {
    piece.text += std::exchange(held_, "");
    return;
  }
  if (!is_last) return;
  const std::vector<std::string_view> objects = objects_of(has_tag ? start.substr(kPythonTag.size()) : start);
  const bool are_known = std::ranges::all_of(objects, [&](std::string_view object) {
    const Json call = Json::parse_or_null(object);
    const bool has_name = call.is_object() && call.contains("name") && call["name"].is_string();
    return has_name && (options_.names.empty() || std::ranges::count(options_.names, call["name"].string()) > 0);
  });
  Piece own;
  const int64_t before = count_;
  const bool are_calls = are_known && !objects.empty() && std::ranges::all_of(objects, [&](std::string_view object) {
                           return add_call(object, own, "parameters");
                         });
  if (!are_calls) {
    count_ = before;
    return;  // finish() returns the text
  }
  piece.calls = std::move(own.calls);
  held_.clear();
}

}  // namespace attend
