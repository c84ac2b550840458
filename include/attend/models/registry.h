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
/// All there are, in the order one learns them: rnn, rnn-attention, transformer, gpt, encoder.
const std::vector<Architecture>& architectures();

std::vector<SettingInfo> settings_of(std::string_view architecture);
/// The settings of preset `tiny`, `small` or `base` as JSON text. Throws Error that lists what there is otherwise.
std::string preset_config(std::string_view architecture, std::string_view preset);
/// `config` with settings replaced, their values as a user writes them ("4", "0.1", "yes", "gelu"). Throws Error that
/// names the setting and what it takes.
std::string with_settings(const std::string& config, const std::map<std::string, std::string>& settings);

/// A fresh model. Throws FormatError for unknown, missing or absurd settings, ShapeError where they do not fit each
/// other.
std::unique_ptr<Model> create_model(const std::string& config, Rng& rng);

/// Writes config.json and model.safetensors into a folder, each whole or not at all.
void save_model(const Model& model, const std::string& folder);
struct LoadOptions {
  bool in_place = false;  ///< use the weights where they lie in the mapped file: read-only, cannot be trained
};
/// Reads them back. Throws FormatError that names the folder, the file and what is wrong with it.
std::unique_ptr<Model> load_model(const std::string& folder, const LoadOptions& options = {});

}  // namespace attend
