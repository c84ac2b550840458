#include "serve/generation_settings.h"

#include <charconv>
#include <random>

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
  const auto take = [&](auto value, auto& to) {
    if (!value) return;
    to = static_cast<std::remove_reference_t<decltype(to)>>(*value);
    settings.is_sampling_given = true;
  };
  take(fields.number("temperature", {0, 100}), sampling.temperature);
  take(fields.number("top_p", {0, 1}), sampling.top_p);
  take(fields.whole("top_k", 0, INT32_MAX), sampling.top_k);
  take(fields.number("min_p", {0, 1}), sampling.min_p);
  take(fields.number("repetition_penalty", {0.001, 1000}), sampling.repetition_penalty);
  take(fields.number("frequency_penalty", {-2, 2}), sampling.frequency_penalty);
  take(fields.number("presence_penalty", {-2, 2}), sampling.presence_penalty);
  sampling.seed = random_seed();
  take(fields.whole("seed", INT64_MIN, INT64_MAX), sampling.seed);
  sampling.logit_bias = read_logit_bias(fields, model);
  settings.is_sampling_given |= !sampling.logit_bias.empty();
}

void read_stream_options(RequestFields& fields, GenerationSettings& settings) {
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!settings.streams) fields.fail("stream_options", "requires 'stream': true");
  RequestFields inner(*options, "stream_options");
  settings.includes_usage = inner.flag("include_usage").value_or(false);
  inner.refuse_others();
}

}  // namespace

LookSettings read_look(RequestFields fields) {
  LookSettings look;
  look.layers = fields.places("layers", 1000);
  look.heads = fields.places("heads", 1000);
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
  read_stream_options(fields, settings);
  if (const Json* look = fields.find("attend")) settings.look = read_look({*look, "attend"});
  settings.user = fields.text("user").value_or("");
  if (!settings.beam) return settings;
  const int64_t beam = *settings.beam;
  if (settings.is_sampling_given) fields.fail("beam", "cannot be combined with temperature and other sampling fields");
  if (settings.look && beam > 1) fields.fail("attend", "requires a 'beam' of 1");
  if (settings.n > beam) fields.fail("n", "must be at most 'beam', got " + std::to_string(settings.n));
  return settings;
}

}  // namespace attend
