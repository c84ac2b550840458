// config.json of an untrusted model: for any bytes, its values are read or refused.

#include <cstddef>
#include <cstdint>
#include <string>

#include "attend/base/error.h"
#include "hub/generation.h"
#include "hub/language.h"

namespace {

using namespace attend;

/// Calls every accessor of a config.
void read_all(const hub::HubConfig& config) {
  const auto attempt = [](auto&& read) {
    try {
      read();
    } catch (const FormatError&) {  // refused by name
    }
  };
  for (const char* key : {"vocab_size", "hidden_size", "eos_token_id", "hidden_act", "id2label", "rope_scaling",
                          "tie_word_embeddings", "layer_types", "rms_norm_eps"}) {
    attempt([&] { config.size(key, kMostWidth); });
    attempt([&] { config.count(key, kMostWidth, 1); });
    attempt([&] { config.token(key); });
    attempt([&] { config.tokens(key); });
    attempt([&] { config.number(key, 1); });
    attempt([&] { config.flag(key, true); });
    attempt([&] { config.text(key, ""); });
    attempt([&] { config.texts(key); });
    attempt([&] { config.activation(key, "gelu"); });
    attempt([&] { config.section(key); });
    attempt([&] { config.expect(key, 1); });
  }
  attempt([&] { config.labels(); });
  attempt([&] { config.architecture(); });
  attempt([&] { hub::generation_rules("/nonexistent", config); });
  attempt([&] {
    GptConfig result = hub::llama_config(config);
    hub::read_layer_kinds(config, result);
    if (result.vocab_size < 1 || result.vocab_size > kMostVocab || result.layers > kMostLayers) __builtin_trap();
    if (!result.layer_kinds.empty() && static_cast<int64_t>(result.layer_kinds.size()) != result.layers) {
      __builtin_trap();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    read_all(hub::HubConfig({reinterpret_cast<const char*>(data), size}, "config.json"));
  } catch (const FormatError&) {  // not a JSON object
  }
  return 0;
}
