#include "serve/generation_settings.h"

#include <charconv>
#include <random>

#include "attend/chat/chat_template.h"
#include "attend/grammar/json_schema.h"
#include "serve/look.h"

namespace attend {
namespace {

constexpr int64_t kMostTexts = 128, kMostBeamWidth = 64, kMostTokens = 1 << 24;
constexpr size_t kMostStops = 16, kLongestStop = 1024, kMostBiases = 1024;

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::vector<std::pair<int32_t, float>> read_logit_bias(RequestFields& fields, const ModelEntry& model) {
  std::vector<std::pair<int32_t, float>> result;
  const Json* biases = fields.find("logit_bias");
  if (biases == nullptr) return result;
  if (!biases->is_object() || biases->size() > kMostBiases) {
    fields.fail("logit_bias", "must be an object of at most 1024 token ids with numbers");
  }
  for (const auto& [key, value] : biases->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= model.vocabulary.size) {
      fields.fail("logit_bias",
                  "has a key that is not a token id from 0 to " + std::to_string(model.vocabulary.size - 1));
    }
    if (!value.is_number() || !(value.number() >= -100 && value.number() <= 100)) {
      fields.fail("logit_bias", "must have numbers from -100 to 100");
    }
    result.emplace_back(id, static_cast<float>(value.number()));
  }
  return result;
}

/// Fields of sampling. Each given one selects sampling, also for a model that searches by default.
void read_sampling(RequestFields& fields, const ModelEntry& model, GenerationSettings& settings) {
  SamplingOptions& sampling = settings.sampling;
  const auto note = [&](const char* name) {
    if (settings.sampling_field.empty()) settings.sampling_field = name;
  };
  const auto number = [&](const char* name, NumberRange range, double& to) {
    const auto value = fields.number(name, range);
    if (value) note(name), to = *value;
  };
  const auto whole = [&](const char* name, int64_t least, int64_t most, auto& to) {
    const auto value = fields.whole(name, least, most);
    if (value) note(name), to = static_cast<std::remove_reference_t<decltype(to)>>(*value);
  };
  number("temperature", {0, 100}, sampling.temperature);
  number("top_p", {0, 1}, sampling.top_p);
  whole("top_k", 0, INT32_MAX, sampling.top_k);
  number("min_p", {0, 1}, sampling.min_p);
  number("repetition_penalty", {0.001, 1000}, sampling.repetition_penalty);
  number("frequency_penalty", {-2, 2}, sampling.frequency_penalty);
  number("presence_penalty", {-2, 2}, sampling.presence_penalty);
  sampling.seed = random_seed();
  whole("seed", INT64_MIN, INT64_MAX, sampling.seed);
  sampling.logit_bias = read_logit_bias(fields, model);
  if (!sampling.logit_bias.empty()) note("logit_bias");
}

void read_stream_options(RequestFields& fields, GenerationSettings& settings) {
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!settings.streams) fields.fail("stream_options", "requires 'stream': true");
  RequestFields inner(*options, "stream_options");
  settings.includes_usage = inner.flag("include_usage").value_or(false);
  inner.refuse_others();
}

/// The constraint of a field. `key` identifies its grammar.
template <class Make>
std::shared_ptr<const Constraint> constraint_of(const ModelEntry& model, const std::string& field,
                                                const std::string& key, const Make& make) {
  try {
    return model.constraints->get(key, make);
  } catch (const Error& error) {
    throw RequestError(400, "'" + field + "' cannot be used: " + error.what(), field);
  }
}

void read_response_format(RequestFields& fields, const ModelEntry& model, GenerationSettings& settings) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  const bool is_text = format->is_object() && format->value<Json>("type", nullptr) == Json("text");
  if (is_text && format->size() == 1) return;
  if (settings.ignores_end) fields.fail("response_format", "cannot be combined with 'ignore_eos'");
  settings.constraint =
      constraint_of(model, "response_format", format->dump(), [&] { return *response_grammar(*format); });
}

}  // namespace

void read_tool_fields(RequestFields& fields, const ModelEntry& model, GenerationSettings& settings) {
  const auto value = [&](const char* name) {
    const Json* found = fields.find(name);
    return found != nullptr ? *found : Json();
  };
  const Json tools = value("tools"), choice = value("tool_choice"), parallel = value("parallel_tool_calls");
  try {
    settings.tools = read_tools(tools, choice, parallel);
  } catch (const FormatError& error) {
    const std::string message = error.what();  // begins with the field
    throw RequestError(400, message, message.substr(0, message.find(':')));
  }
  if (settings.tools.choice == ToolChoice::none) return;
  if (settings.constraint) fields.fail("response_format", "cannot be combined with 'tools'");
  settings.tool_format = tool_format(model.own.chat->source());
  if (settings.tool_format == ToolFormat::none) fields.fail("tools", "are not supported by the model's chat template");
  if (!needs_grammar(settings.tools, settings.tool_format)) return;
  if (settings.ignores_end) fields.fail("tools", "cannot be combined with 'ignore_eos'");
  settings.constraint = constraint_of(model, "tools", Json::array({tools, choice, parallel}).dump(),
                                      [&] { return *tool_grammar(settings.tools, settings.tool_format); });
}

LookSettings read_look(RequestFields fields, const Model& model) {
  const AttentionSize size = attention_size(model);
  if (size.layers == 0) throw RequestError(400, "'attend' requires a model with attention", "attend");
  LookSettings look;
  look.layers = fields.places("layers", size.layers - 1);
  look.heads = fields.places("heads", size.heads - 1);
  look.top = fields.whole("top", 1, 1024).value_or(look.top);
  fields.refuse_others();
  return look;
}

GenerationSettings read_generation(RequestFields& fields, const ModelEntry& model) {
  GenerationSettings settings;
  settings.n = fields.whole("n", 1, kMostTexts).value_or(1);
  settings.max_tokens = fields.whole("max_tokens", 0, kMostTokens);
  read_sampling(fields, model, settings);
  settings.beam = fields.whole("beam", 1, kMostBeamWidth);
  settings.stop = fields.texts("stop", kMostStops);
  for (const std::string& stop : settings.stop) {
    if (stop.empty() || stop.size() > kLongestStop) fields.fail("stop", "must have strings of 1 to 1024 bytes");
  }
  settings.ignores_end = fields.flag("ignore_eos").value_or(false);
  settings.streams = fields.flag("stream").value_or(false);
  settings.returns_ids = fields.flag("return_token_ids").value_or(false);
  read_stream_options(fields, settings);
  if (const Json* look = fields.find("attend")) settings.look = read_look({*look, "attend"}, model.model());
  settings.user = fields.text("user").value_or("");
  read_response_format(fields, model, settings);
  if (!settings.beam) return settings;
  const int64_t beam = *settings.beam;
  if (!settings.sampling_field.empty())
    fields.fail("beam", "cannot be combined with '" + settings.sampling_field + "'");
  if (settings.look && beam > 1) fields.fail("attend", "requires a 'beam' of 1");
  if (settings.n > beam) fields.fail("n", "must be at most 'beam', got " + std::to_string(settings.n));
  return settings;
}

}  // namespace attend
