#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attend/inspect/document.h"
#include "attend/nn/observer.h"

// Running a model again and again on one input, with activations observed or changed. The tools of interpretability
// (lens.h, attribute.h, patch.h, …) are built on it.
namespace attend {

/// Called during long work with the number of finished and of all steps. May throw to cancel the work.
using OnSteps = std::function<void(int64_t done, int64_t total)>;

/// Records every activation [batch, rows, dim] of a forward pass. The name of an activation is the module's path, a
/// colon and the name of the value (attend/nn/observer.h): "decoder.layers.0.attention:branch".
class ActivationRecorder : public Observer {
 public:
  std::map<std::string, Tensor> values;

  void computed(std::string_view what, const Tensor& value) override;
  /// The activation. Throws ShapeError if there is none with this name.
  const Tensor& at(const std::string& name) const;
};

/// A change of an activation.
struct ActivationChange {
  std::string point;              ///< name of the activation
  Tensor value;                   ///< [rows, dim], or [1, dim] for all rows
  bool is_added = false;          ///< strength · value is added to the activation instead of replacing it
  double strength = 1;            ///< of an added value
  std::vector<int64_t> places{};  ///< rows that change; empty: all
  std::optional<int64_t> head{};  ///< only this head's part of the columns; the name must end in ":attended"
  int64_t heads = 1;              ///< number of heads; used with `head`
};

/// Records a forward pass and changes some of its activations.
class ActivationChanger : public ActivationRecorder {
 public:
  std::vector<ActivationChange> changes;
  /// Outputs of layers, by the path of the layer, that are not computed again: see Observer::known_output.
  std::map<std::string, Tensor> known;

  Tensor replacement(std::string_view what, const Tensor& value) override;
  Tensor known_output() override;
};

/// A copy of an activation `value` [batch, rows, dim] with the change. Throws
/// ShapeError if a place or a head does not exist.
Tensor changed(const Tensor& value, const ActivationChange& change);

/// All changes of the activation called path:what, applied to `value`; empty if there are none.
Tensor apply_changes(const std::vector<ActivationChange>& changes, std::string_view path, std::string_view what,
                     const Tensor& value);

/// One stack of Transformer layers.
struct StackPlace {
  std::string name;      ///< "encoder", "decoder" or "stack": the prefix of its activations' names
  std::string embedded;  ///< name of the input of the first layer
  std::string tokens;    ///< name of the token embeddings
  int64_t layers = 0;    ///< 0 for a recurrent network
  int64_t side = 0;      ///< index in Experiment::sides of its tokens
  bool has_cross = false;
  int64_t heads = 0;

  std::string layer(int64_t index) const { return name + ".layers." + std::to_string(index); }
  std::string output(int64_t index) const { return layer(index) + ":output"; }
};

/// A model and one input. The outputs are logits: of the next token at each place of a side, of the token itself for an
/// encoder with a masked-language-model head, or of labels, in one row.
class Experiment {
 public:
  /// Reads the input as capture() does; `options` must not ablate anything. Throws as capture() does, and Error if the
  /// model has neither labels nor words as outputs.
  Experiment(InspectedModel model, RunOptions options);

  const InspectedModel& model() const { return model_; }
  const std::vector<RunSide>& sides() const { return sides_; }
  bool has_labels() const { return has_labels_; }
  bool predicts_next() const { return predicts_next_; }  ///< the output of a place is the token after it
  int64_t output_side() const { return output_side_; }   ///< side with one output for each token
  int64_t outputs() const;                               ///< number of output rows; 1 for labels
  /// The output to study by default: the last one; of a model of masked words, that of its first mask or last word.
  int64_t usual_output() const;
  int64_t classes() const;  ///< number of labels or words
  /// The label or token of a class.
  ShownToken class_token(int64_t id) const;
  /// The class called `text`: a label, or the token that `text` is encoded as, with or without a leading space. Throws
  /// ShapeError for an unknown label, or a text of several tokens.
  int64_t class_named(const std::string& text) const;
  /// The correct class of an output: the token that follows, or the token itself; -1 if unknown.
  int64_t true_class(int64_t output) const;

  /// The stacks, in the order of the forward pass. The last one computes the outputs.
  const std::vector<StackPlace>& stacks() const { return stacks_; }
  /// The last stack. Throws Error for a recurrent model: `tool` is the subject of the message.
  const StackPlace& residual_stack(const char* tool) const;

  /// Runs the model. Returns the logits [rows, classes] of the outputs begin … end − 1, in f32 on the model's device.
  /// Recorded for gradients unless a NoGrad is alive.
  Tensor logits(Observer* observer, RowRange range) const;
  Tensor logits(Observer* observer = nullptr) const { return logits(observer, {0, outputs()}); }

 private:
  Tensor hidden(const ForwardPass& pass) const;

  InspectedModel model_;
  std::vector<RunSide> sides_;
  std::vector<StackPlace> stacks_;
  Tensor first_, second_, types_;  // ids of the sides, token types, or pixels
  bool has_labels_ = false, predicts_next_ = true;
  int64_t output_side_ = 0;
};

}  // namespace attend
