#pragma once

#include <set>
#include <string>
#include <vector>

#include "attend/hub/hub.h"
#include "attend/io/safetensors.h"
#include "attend/nn/observer.h"

// Compares a whole model with golden.safetensors in its folder, which transformers computed.
namespace attend::golden {

/// The reference of one model. Entries that no checker reads are an error.
class ModelCase {
 public:
  /// Reads PATH and the model in its folder.
  explicit ModelCase(const std::string& path);

  const LoadedModel& loaded() const { return loaded_; }
  const std::string& folder() const { return folder_; }
  /// An entry of the metadata, as JSON text; "" if there is none.
  std::string metadata(const std::string& key) const;
  bool has(const std::string& name) const { return file_.contains(name); }
  Tensor tensor(const std::string& name);
  std::vector<int64_t> ids(const std::string& name) { return tensor(name).to_vector<int64_t>(); }

  /// |ours − expected| ≤ 1e-4 · max|expected|. If `real` is given (i64, the leading shape of both), only where it is 1.
  void expect_close(const std::string& name, const Tensor& ours, const Tensor& real = {});
  /// |ours − expected| ≤ 1e-5, for attention weights.
  void expect_weights(const std::string& name, const Tensor& ours);
  /// Two of our own results must agree: |a − b| ≤ 1e-4 · max|b|.
  void expect_same(const std::string& what, const Tensor& a, const Tensor& b);
  void expect_ids(const std::string& name, const std::vector<int64_t>& ours);

  /// Empty if all values match, otherwise the mismatch. Throws FormatError for unused entries.
  std::string finish() const;

 private:
  void expect_within(const std::string& name, const Tensor& ours, double tolerance, const Tensor& real);

  std::string folder_;
  SafetensorsFile file_;
  LoadedModel loaded_;
  std::set<std::string> read_;
  std::vector<std::string> problems_;
};

/// Records the values that checkers compare: all attention, the input of every layer, and the output of the last.
class LayerRecorder : public AttentionRecorder {
 public:
  std::vector<Tensor> inputs;  ///< of each layer, in order
  Tensor final;                ///< after the last norm

  void computed(std::string_view what, const Tensor& value) override {
    if (what == "input") inputs.push_back(value.detach());
    if (what == "final") final = value.detach();
  }
};

/// Empty if the model matches the file, otherwise the mismatch.
std::string check_model(const std::string& path);

// One checker per "kind".
void check_causal_lm(ModelCase& reference);
void check_encoder(ModelCase& reference);
void check_image_classifier(ModelCase& reference);
void check_seq2seq(ModelCase& reference);

/// The number of real tokens in each row of an attention mask; padding comes last.
Tensor lengths_of(const Tensor& mask);

}  // namespace attend::golden
