#pragma once

#include "attend/io/image.h"
#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

struct VisionConfig {
  int64_t image = 224;
  int64_t patch = 16;
  int64_t channels = 3;
  std::vector<std::string> labels;
  int64_t dim = 768;
  int64_t heads = 12;
  int64_t layers = 12;
  int64_t ffn_dim = 3072;
  bool input_bias = true;
  Activation activation = Activation::gelu;
  double eps = 1e-12;
  double dropout = 0;

  static void settings(auto&& visit) {
    using C = VisionConfig;
    visit("image", &C::image, "width and height of a picture, in pixels", kMostWidth);
    visit("patch", &C::patch, "width and height of a patch", kMostWidth);
    visit("channels", &C::channels, "numbers of a pixel", kMostWidth);
    visit("labels", &C::labels, "what the classes are called");
    visit("dim", &C::dim, "width of every layer", kMostWidth);
    visit("heads", &C::heads, "attention heads; they divide dim", kMostWidth);
    visit("layers", &C::layers, "number of layers", kMostLayers);
    visit("ffn_dim", &C::ffn_dim, "width inside the feed-forward network", kMostWidth);
    visit("input_bias", &C::input_bias, "biases on attention's queries, keys and values");
    visit("activation", &C::activation, "of the feed-forward network");
    visit("eps", &C::eps, "added to the variance in norms", kMostEps);
    visit("dropout", &C::dropout, "share of values dropped while training", kMostDropout);
  }
};

/// An encoder that reads pictures (Dosovitskiy et al. 2021): patches are its words, a learned vector in front of them
/// stands for the whole.
struct Vision final : ImageModel {
  VisionConfig settings;
  Linear patches;  ///< [dim, channels · patch · patch]
  Tensor whole;    ///< [1, dim]: what is read before the patches
  LearnedPositions positions;
  TransformerEncoder layers;
  std::optional<Linear> classifier;

  /// Throws ShapeError where patches do not fill a picture, or there are more of them than can be.
  static std::unique_ptr<Vision> create(const VisionConfig& config, Rng& rng);

  std::string architecture() const override { return "vision"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override;
  void visit_parameters(const ParameterVisitor& visit) override;
  std::vector<Tensor*> matrices() override;
  int64_t vocab_size() const override { return 0; }
  int64_t dim() const override { return settings.dim; }
  int64_t context() const override { return positions.weight.dim(0); }
  Positions position_kind() const override { return Positions::learned; }
  std::vector<std::string> labels() const override { return settings.labels; }
  int64_t image_size() const override { return settings.image; }
  int64_t patch_size() const override { return settings.patch; }
  int64_t channels() const override { return settings.channels; }
  Tensor hidden(const Tensor& pixels, const ForwardPass& pass = {}) const override;
  Tensor classify(const Tensor& pixels, const ForwardPass& pass = {}) const override;

  static void fields(auto&& visit) {
    using Self = Vision;
    visit("patches", &Self::patches);
    visit("whole", &Self::whole);
    visit("positions", &Self::positions);
    visit("stack", &Self::layers);
    visit("classifier", &Self::classifier);
  }
};

/// How a picture becomes the numbers a model reads.
struct ImagePreparation {
  bool is_resized = true;
  ImageSize size{224, 224};
  int64_t shortest_edge = 0;  ///< instead of `size`: the shorter side becomes this, the longer keeps its proportion
  Resampling resampling = Resampling::bilinear;
  ImageSize crop{};  ///< the middle of what was resized; 0: none
  double factor = 1.0 / 255;
  /// Of each channel, after the factor. One channel alone is grey.
  std::vector<double> mean{0.5, 0.5, 0.5}, deviation{0.5, 0.5, 0.5};

  /// The picture in the size that the model sees.
  Image sized(const Image& image) const;
  /// sized(image) as numbers: [1, channels, height, width].
  Tensor pixels(const Image& image) const;
};

}  // namespace attend
