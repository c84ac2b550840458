#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attend/models/model.h"
#include "attend/models/settings.h"

namespace attend {

struct Architecture {
  std::string name, summary;
  ModelKind kind = ModelKind::translation;
};
/// The architectures that can be trained, in teaching order: rnn, rnn-attention, transformer, gpt, encoder.
const std::vector<Architecture>& architectures();

/// The settings of an architecture. Throws an Error that lists the architectures if the name is unknown.
std::vector<SettingInfo> settings_of(std::string_view architecture);
/// The settings of the preset `tiny`, `small` or `base` as JSON text. Throws an Error that lists the known names if the
/// architecture or the preset is unknown.
std::string preset_config(std::string_view architecture, std::string_view preset);
/// `config` with some settings replaced. Values are written as on the command line ("4", "0.1", "yes", "gelu"). Throws
/// an Error that names the setting and its allowed values.
std::string with_settings(const std::string& config, const std::map<std::string, std::string>& settings);

/// Creates a model with random parameters. Throws FormatError for unknown, missing or out-of-range settings, and
/// ShapeError for inconsistent settings.
std::unique_ptr<Model> create_model(const std::string& config, Rng& rng);

/// Writes config.json and model.safetensors to a folder. Each file is replaced atomically.
void save_model(const Model& model, const std::string& folder);
struct LoadOptions {
  bool in_place = false;  ///< use the weights in the mapped file without a copy: read-only, for inference
};
/// Loads a model that save_model wrote. Throws a FormatError that names the folder, the file and the problem.
std::unique_ptr<Model> load_model(const std::string& folder, const LoadOptions& options = {});

}  // namespace attend
