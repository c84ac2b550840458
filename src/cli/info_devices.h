#pragma once

#include "attend/io/json.h"

// `attend info --devices`.
namespace attend::cli {

/// {"devices": […], "problem": …}: the devices of this machine, and why no GPU can be used or null.
Json devices_json();
void print_devices(const Json& all);

}  // namespace attend::cli
