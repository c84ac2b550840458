#include "train/check_settings.h"

#include "attend/base/error.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "attend/nn/init.h"

namespace attend {
namespace {

void require_some(const Json& config, const char* name) {
  const bool is_there = config.contains(name) && config[name].is_number_integer();
  require<SettingError>(!is_there || config[name].get<int64_t>() != 0, "'", name, "' must be at least 1, got 0");
}

void require_multiple(const Json& config, const char* large, const char* small) {
  const auto whole = config.value(large, int64_t{0}), part = config.value(small, int64_t{0});
  require<SettingError>(part == 0 || whole % part == 0, "'", large, "' must be a multiple of '", small, "', got ",
                        whole, " and ", part);
}

/// The message without the class name in front: "MultiheadAttention: …".
std::string without_class(const std::string& message) {
  const size_t end = message.find(": ");
  const bool is_name = end != std::string::npos && message.substr(0, end).find(' ') == std::string::npos;
  return is_name ? message.substr(end + 2) : message;
}

/// Throws SettingError, naming the config's keys, for the common cases of sizes that do not fit together.
void explain(const Json& config) {
  if (config.value("head_dim", int64_t{0}) == 0) {
    require_multiple(config, "dim", "heads");
    require_multiple(config, "dim", "decoder_heads");
  }
  require_multiple(config, "heads", "key_heads");
  const auto state_dim = config.value("state_dim", int64_t{0});
  require<SettingError>(!config.value("bidirectional", true) || state_dim % 2 == 0,
                        "'state_dim' must be even if 'bidirectional' is on, got ", state_dim);
}

}  // namespace

int64_t checked_context(const std::string& text) {
  const Json config = Json::parse(text);
  for (const char* name : {"dim", "heads", "layers", "encoder_layers", "decoder_layers", "context"}) {
    require_some(config, name);
  }
  try {
    const BlankParameters scope;
    Rng rng;
    const int64_t context = create_model(text, rng)->context();
    require<SettingError>(context >= 1, "'context' must be at least 1, got ", context);
    return context;
  } catch (const ShapeError& error) {
    explain(config);
    throw SettingError("the model's settings do not fit together: " + without_class(error.what()));
  }
}

}  // namespace attend
