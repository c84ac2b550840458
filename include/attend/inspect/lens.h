#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attend/inspect/experiment.h"

// The logit lens (nostalgebraist 2020): the model's own final norm and output layer, applied after each layer.
namespace attend {

struct LensOptions {
  int64_t top = 5;      ///< number of classes per cell, 1 to 50
  int64_t first = 0;    ///< first place
  int64_t places = 64;  ///< maximum number of places, from `first` on, 1 to 512
  OnSteps on_step{};
};

/// What a layer would predict at a place.
struct LensCell {
  std::vector<ShownCandidate> top;  ///< the most likely classes, best first
  double probability = 0;           ///< of the reference class
  int64_t rank = 0;                 ///< number of classes that are more likely than the reference class
  double entropy = 0;               ///< of the prediction, in nats
};

/// A column of the lens.
struct LensPlace {
  int64_t index = 0;            ///< index of the token; -1: the vector of the whole input that the classifier reads
  ShownToken token;             ///< the token at the place
  ShownToken reference;         ///< the correct class, or else the class that the model itself predicts
  bool is_true = false;         ///< the reference is the correct class
  std::vector<LensCell> cells;  ///< one for each row of Lens::points
};

struct Lens {
  int64_t side = 0;                 ///< index in Experiment::sides
  std::vector<std::string> points;  ///< "embedded", then the output of each layer; the last one is the model's output
  std::vector<LensPlace> places;
};

/// Applies the lens to the last stack. The last row has exactly the probabilities of the model's output. With labels,
/// the first column is the vector that the classifier reads, and the others are the tokens, each read by the classifier
/// in its stead. Throws ShapeError if an option is out of range, and Error for a recurrent model.
Lens lens(const Experiment& experiment, const LensOptions& options = {});

}  // namespace attend
