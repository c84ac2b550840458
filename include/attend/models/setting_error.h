#pragma once

#include "attend/base/error.h"

namespace attend {

/// A setting, or several together, that cannot be used. what() has their names in single quotes, as config.json and
/// training.json spell them.
struct SettingError : FormatError {
  using FormatError::FormatError;
};

}  // namespace attend
