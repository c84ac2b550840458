#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attend/io/json.h"
#include "attend/models/settings.h"

namespace attend::hub {

/// A config.json with every value checked as it is read: its kind, and sizes against limits beyond which a file is
/// damaged or hostile. A null value counts as absent. Errors are FormatErrors that name the file and the key.
///
/// The methods below mark the keys they look up as read, in all copies of the object. unread() lists the other keys:
/// the settings that no converter maps, which may change what the model computes.
class HubConfig {
 public:
  /// Errors show `file` as the file's name. Throws FormatError if `text` is not a JSON object or is nested too deeply.
  HubConfig(std::string_view text, std::string file);
  /// Reads folder/name; a missing file counts as an empty object.
  static HubConfig read(const std::string& folder, const std::string& name);

  const std::string& file() const { return file_; }
  const Json& json() const { return json_; }
  std::string model_type() const { return text("model_type", ""); }
  /// The first of "architectures" ("LlamaForCausalLM"), or "".
  std::string architecture() const;

  bool has(const char* key) const;
  /// A size from 1 to `most`; the first overload requires the key.
  int64_t size(const char* key, double most) const;
  int64_t size(const char* key, double most, int64_t otherwise) const;
  /// A whole number from 0 to `most`.
  int64_t count(const char* key, double most, int64_t otherwise) const;
  /// A token id below kMostVocab, or −1 without one.
  int32_t token(const char* key) const;
  /// One token id or a list of them.
  std::vector<int32_t> tokens(const char* key) const;
  double number(const char* key, double otherwise, double least = 0, double most = kNoLimit) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<std::string> texts(const char* key) const;
  /// transformers' name of an activation.
  Activation activation(const char* key, const std::string& otherwise) const;
  /// The names of the classes in the order of their numbers, from "id2label"; empty without it.
  std::vector<std::string> labels() const;
  /// An object inside this one; empty if absent.
  HubConfig section(const char* key) const;

  /// Throws FormatError that names the key unless its value is `only` or absent.
  void expect(const char* key, const Json& only) const;
  /// Counts keys as read whose values do not change what the model computes. The caller says in a comment why.
  void ignore(std::initializer_list<const char*> keys) const;
  /// A key that nothing has read or ignored: "rope_scaling.beta_fast" for one of a section that was read.
  struct Unread {
    std::string key;
    Json value;
  };
  /// All such keys in the order of the file. A null is not listed: the setting is not set.
  std::vector<Unread> unread() const;
  /// Throws FormatError with the file's name before `what`.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Json* find(const char* key) const;
  [[noreturn]] void wrong(const char* key, const std::string& expected, const Json& got) const;
  int32_t token_of(const char* key, const Json& value) const;

  /// What was asked for, shared by all copies, and the same of each section.
  struct Reads {
    std::set<std::string, std::less<>> keys;
    std::map<std::string, std::shared_ptr<Reads>, std::less<>> sections;
  };
  static void add_unread(const Json& json, const Reads& reads, const std::string& prefix, std::vector<Unread>& result);

  Json json_;
  std::string file_;
  std::shared_ptr<Reads> reads_ = std::make_shared<Reads>();
};

/// transformers takes a size by a second name ("hidden_size" for GPT-2's "n_embd"), too. Refuses one that differs from
/// what was read.
void expect_other_names(const HubConfig& config, std::initializer_list<std::pair<const char*, int64_t>> sizes);

/// Names at most five of the keys with their values, and the number of the others.
std::string unread_text(const std::vector<HubConfig::Unread>& unread);

}  // namespace attend::hub
