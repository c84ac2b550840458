#pragma once

#include <string>
#include <vector>

#include "attend/io/json.h"
#include "attend/models/gpt.h"

// Our settings in the form of transformers' config.json.
namespace attend::hub {

/// A model has settings that an architecture does not support; what() names all of them and the supported values.
struct SettingsError : Error {
  SettingsError(const std::string& what, size_t missing) : Error(what), count(missing) {}
  size_t count;  ///< number of unsupported settings
};

// A setting's value as written on the command line.
std::string setting_text(bool value);
std::string setting_text(int64_t value);
std::string setting_text(double value);
template <class Choice>
requires std::is_enum_v<Choice> std::string setting_text(Choice value) {
  return std::string(names_of(value)[static_cast<size_t>(value)]);
}

/// Collects the settings of a model that the architecture `to` does not support, so that one error names them all.
class Refusals {
 public:
  explicit Refusals(const char* to) : to_(to) {}

  /// Refuses any value except `only`.
  template <class T>
  void expect(const char* name, const T& value, const T& only) {
    refuse_unless(value == only, name, setting_text(value), setting_text(only));
  }
  /// Refuses a value unless `ok`, and names a supported value.
  void refuse_unless(bool ok, const char* name, const std::string& value, const std::string& instead);
  /// Throws SettingsError if anything was refused.
  void check() const;

 private:
  const char* to_;
  std::vector<std::string> settings_, options_;
};

/// The model as type M; throws Error if it is of another type.
template <class M>
const M& model_of(const Model& model, const char* to) {
  const auto* found = dynamic_cast<const M*>(&model);
  require<Error>(found != nullptr, to, ": cannot export a model of architecture ", model.architecture(),
                 " to this architecture");
  return *found;
}

/// transformers' name of an activation.
const char* activation_name(Activation activation);

/// The settings that Llama and its relatives share; each adds its own and refuses those it does not support.
Json llama_json(const GptConfig& config, Refusals& refusals);

}  // namespace attend::hub
