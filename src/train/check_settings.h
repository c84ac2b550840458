#pragma once

#include <cstdint>
#include <string>

namespace attend {

/// The context of the model that a config describes. Throws SettingError, naming the config's keys, if its sizes do not
/// fit together.
int64_t checked_context(const std::string& config);

}  // namespace attend
