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
    visit("image", &C::image, "Width and height of an image in pixels", kMostWidth);
    visit("patch", &C::patch, "Width and height of a patch in pixels", kMostWidth);
    visit("channels", &C::channels, "Number of channels per pixel", kMostWidth);
    visit("labels", &C::labels, "Names of the classes");
    visit("dim", &C::dim, "Model width", kMostWidth);
    visit("heads", &C::heads, "Number of attention heads, a divisor of dim", kMostWidth);
    visit("layers", &C::layers, "Number of layers", kMostLayers);
    visit("ffn_dim", &C::ffn_dim, "Feed-forward width", kMostWidth);
    visit("input_bias", &C::input_bias, "Biases on the query, key and value projections");
    visit("activation", &C::activation, "Activation of the feed-forward network");
    visit("eps", &C::eps, "Epsilon in norms", kMostEps);
    visit("dropout", &C::dropout, "Dropout probability", kMostDropout);
  }
};

/// A Vision Transformer (Dosovitskiy et al. 2021): an encoder whose tokens are image patches, preceded by a learned
/// vector that represents the whole image.
struct Vision final : ImageModel {
  VisionConfig settings;
  Linear patches;  ///< [dim, channels · patch · patch]
  Tensor whole;    ///< learned vector before the patches, [1, dim]
  LearnedPositions positions;
  TransformerEncoder layers;
  std::optional<Linear> classifier;

  /// Throws ShapeError if the image size is not a multiple of the patch size, or there are too many patches.
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

/// The preprocessing of an image: resize, crop, rescale and normalise.
struct ImagePreparation {
  bool is_resized = true;
  ImageSize size{224, 224};
  int64_t shortest_edge = 0;  ///< new size of the shorter side, keeping the aspect ratio; overrides `size`; 0: not set
  Resampling resampling = Resampling::bilinear;
  ImageSize crop{};           ///< size of the centre crop after resizing; 0: no crop
  double factor = 1.0 / 255;  ///< multiplies the bytes
  /// Mean and standard deviation of each channel, applied after `factor`. With one channel, the image becomes grey.
  std::vector<double> mean{0.5, 0.5, 0.5}, deviation{0.5, 0.5, 0.5};

  /// The image resized and cropped to the model's input size.
  Image sized(const Image& image) const;
  /// sized(image), rescaled and normalised: [1, channels, height, width].
  Tensor pixels(const Image& image) const;
};

}  // namespace attend
