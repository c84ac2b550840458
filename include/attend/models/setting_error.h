#pragma once

#include "attend/base/error.h"

namespace attend {

/// A setting is invalid, or several settings are inconsistent. what() has their names in single quotes, spelled as in
/// config.json and training.json.
struct SettingError : FormatError {
  using FormatError::FormatError;
};

}  // namespace attend
