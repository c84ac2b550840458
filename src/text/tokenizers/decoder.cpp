#include "text/tokenizers/decoder.h"

#include <array>
#include <map>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/tokenizers/byte_level.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/subword_model.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

using Tokens = std::vector<std::string>;

size_t total_bytes(const Tokens& tokens) {
  size_t sum = 0;
  for (const std::string& token : tokens) sum += token.size();
  return sum;
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

void byte_level(Tokens& tokens) {
  for (std::string& token : tokens) {
    if (auto bytes = bytes_of_spelling(token)) token = std::move(*bytes);
  }
  fuse(tokens);
  tokens[0] = repair_utf8(tokens[0]).text;
}

/// Converts runs of <0x..> to characters, or each byte to U+FFFD if the run is not valid UTF-8.
void byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    std::string text = repair_utf8(bytes).text;
    if (text != bytes) text = replaced(std::string(bytes.size(), '?'), "?", "\ufffd");
    out.push_back(std::move(text));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

/// Removes the spaces that English does not write before punctuation and contractions.
std::string cleaned_up(std::string text) {
  constexpr std::array<std::array<std::string_view, 2>, 11> kRules{{{" .", "."},
                                                                    {" ?", "?"},
                                                                    {" !", "!"},
                                                                    {" ,", ","},
                                                                    {" ' ", "'"},
                                                                    {" n't", "n't"},
                                                                    {" 'm", "'m"},
                                                                    {" do not", " don't"},
                                                                    {" 's", "'s"},
                                                                    {" 've", "'ve"},
                                                                    {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) text = replaced(text, from, to);
  return text;
}

Decoder wordpiece(const Json& json) {
  const auto prefix = field<std::string>(json, "prefix", "##");
  const bool cleanup = field(json, "cleanup", true);
  return [=](Tokens& tokens, TextWork&) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : std::string(1, ' ').append(token);
      if (cleanup) token = cleaned_up(std::move(token));
    }
  };
}

Decoder metaspace(const Json& json) {
  const auto mark = field<std::string>(json, "replacement", "▁");
  require<FormatError>(!mark.empty(), "the replacement of Metaspace is empty");
  const bool prefix = field(json, "add_prefix_space", true);
  const bool prepends = field<std::string>(json, "prepend_scheme", prefix ? "always" : "never") != "never";
  return [=](Tokens& tokens, TextWork&) {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = replaced(tokens[i], mark, i == 0 && prepends ? "" : " ");
  };
}

Decoder replace(const Json& json) {
  const Pattern pattern = make_pattern(required(json, "pattern"));
  const std::string content = required_string(json, "content");
  require<FormatError>(content.size() <= 256, "\"content\" of a decoder has ", content.size(),
                       " bytes, expected at most 256");
  return [=](Tokens& tokens, TextWork& work) {
    for (std::string& token : tokens) token = pattern.replace_all(token, content, work);
  };
}

Decoder strip(const Json& json) {
  const auto content = field<std::string>(json, "content", " ");
  const auto start = field<int64_t>(json, "start", 0), stop = field<int64_t>(json, "stop", 0);
  require<FormatError>(!content.empty(), "the content of Strip is empty");
  return [=](Tokens& tokens, TextWork&) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
      for (int64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
      token = std::string(rest);
    }
  };
}

Decoder bpe(const Json& json) {
  const auto suffix = field<std::string>(json, "suffix", "</w>");
  require<FormatError>(!suffix.empty(), "the suffix of BPEDecoder is empty");
  return [=](Tokens& tokens, TextWork&) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
  };
}

Decoder sequence(const Json& json) {
  std::vector<Decoder> steps;
  for (const Json& step : required(json, "decoders")) {
    if (!step.is_null()) steps.push_back(make_decoder(step));
  }
  return [steps](Tokens& tokens, TextWork& work) {
    for (const Decoder& step : steps) step(tokens, work);
  };
}

/// A decoder step without settings.
Decoder simple(void (*change)(Tokens&)) {
  return [change](Tokens& tokens, TextWork&) { change(tokens); };
}

const std::map<std::string, Decoder (*)(const Json&)>& makers() {
  static const std::map<std::string, Decoder (*)(const Json&)> table{
      {"ByteLevel", [](const Json&) { return simple(byte_level); }},
      {"ByteFallback", [](const Json&) { return simple(byte_fallback); }},
      {"Fuse", [](const Json&) { return simple(fuse); }},
      {"WordPiece", wordpiece},
      {"Metaspace", metaspace},
      {"Replace", replace},
      {"Strip", strip},
      {"BPEDecoder", bpe},
      {"Sequence", sequence},
  };
  return table;
}

void join_with_blanks(Tokens& tokens) {
  for (size_t i = 1; i < tokens.size(); ++i) tokens[i] = std::string(1, ' ').append(tokens[i]);
}

}  // namespace

Decoder make_decoder(const Json& json) {
  if (json.is_null()) return simple(join_with_blanks);
  const std::string type = type_of(json);
  const auto maker = makers().find(type);
  require<FormatError>(maker != makers().end(), "unknown decoder ", in_quotes(type));
  const Decoder made = maker->second(json);
  return [made](Tokens& tokens, TextWork& work) {
    made(tokens, work);
    work.wrote("decoder", total_bytes(tokens));
  };
}

}  // namespace attend::text
