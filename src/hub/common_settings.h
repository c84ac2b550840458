#pragma once

#include "hub/hub_config.h"

// Settings that transformers writes into a config.json of any architecture.
namespace attend::hub {

/// Reads the settings that all architectures share: ignores those that change nothing, refuses those that are not
/// supported. What differs between architectures is left to their converters.
void read_common_settings(const HubConfig& config);

/// Throws FormatError that names the settings which no converter has read or ignored: they may change what the model
/// computes. Call it when everything that reads the config is done.
void require_all_read(const HubConfig& config);
/// The same as a text for a model that is described all the same; "" where all settings were read.
std::string unread_note(const HubConfig& config);

}  // namespace attend::hub
