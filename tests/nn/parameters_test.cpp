#include "attend/nn/parameters.h"

#include "attend/nn/linear.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_error;

struct Block {
  Linear first;
  std::optional<Linear> second;
  Tensor scale;
  static void fields(auto&& visit) {
    visit("first", &Block::first);
    visit("second", &Block::second);
    visit("scale", &Block::scale);
  }
};
struct Model {
  std::vector<Block> blocks;
  Linear head;
  static void fields(auto&& visit) {
    visit("blocks", &Model::blocks);
    visit("head", &Model::head);
  }
};

Model create() {
  Rng rng{.seed = 3};
  Model model;
  model.blocks.resize(2);
  for (Block& block : model.blocks) block.first = Linear::create({.in = 2, .out = 3}, rng);
  model.blocks[1].second = Linear::create({.in = 3, .out = 2, .bias = false}, rng);
  model.blocks[1].scale = parameter(ones({1}));
  model.head = Linear::create({.in = 2, .out = 1}, rng);
  return model;
}

TEST(Parameters, NamesFollowFieldsVectorsAndOptionals) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters(create())) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.first.weight", "blocks.0.first.bias", "blocks.1.first.weight",
                                             "blocks.1.first.bias", "blocks.1.second.weight", "blocks.1.scale",
                                             "head.weight", "head.bias"}));
}

TEST(Parameters, PrefixGoesBeforeEveryName) {
  Model model = create();
  for_each_parameter(model, "net", [](const std::string& name, Tensor&) { EXPECT_TRUE(name.starts_with("net.")); });
}

TEST(Parameters, Count) { EXPECT_EQ(count_parameters(create()), 2 * 9 + 6 + 1 + 3); }

TEST(Parameters, SaveAndLoadRoundTrip) {
  const Model from = create();
  Model into = create();
  for_each_parameter(into, "", [](const std::string&, Tensor& tensor) { copy_values(zeros(tensor.shape()), tensor); });
  const Tensor handle = into.head.weight;  // like the handle of an optimiser
  load_parameters(into, save_parameters(from));
  EXPECT_EQ(testing::values(handle), testing::values(from.head.weight));
  EXPECT_EQ(testing::values(into.blocks[1].second->weight), testing::values(from.blocks[1].second->weight));
  EXPECT_NE(into.head.weight.storage(), from.head.weight.storage());
}

TEST(Parameters, LoadConvertsDtypes) {
  const Model model = create();
  auto saved = save_parameters(model);
  saved["head.bias"] = tensor<double>({0.25}, {1});
  load_parameters(model, saved);
  EXPECT_EQ(model.head.bias.item(), 0.25);
}

TEST(Parameters, LoadErrorsNameTheParameterAndChangeNothing) {
  const Model model = create();
  const auto before = testing::values(model.blocks[0].first.weight);
  auto saved = save_parameters(model);
  saved["blocks.0.first.weight"] = zeros({3, 2});
  saved.erase("head.bias");
  expect_error<ShapeError>([&] { load_parameters(model, saved); }, "load: no value for parameter head.bias");
  saved["head.bias"] = zeros({2});
  expect_error<ShapeError>([&] { load_parameters(model, saved); },
                           "load: parameter head.bias has shape [1] but the value has [2]");
  saved["head.bias"] = zeros({1});
  saved["tail.bias"] = zeros({1});
  expect_error<ShapeError>([&] { load_parameters(model, saved); },
                           "load: the model has no parameter tail.bias (1 unknown in all)");
  EXPECT_EQ(testing::values(model.blocks[0].first.weight), before);
}

TEST(Parameters, ZeroGradClearsAll) {
  const Model model = create();
  backward(model.head.forward(ones({1, 2})));
  EXPECT_TRUE(grad(model.head.weight));
  zero_grad(model);
  EXPECT_FALSE(grad(model.head.weight));
}

TEST(Parameters, ConvertKeepsRequiresGrad) {
  Model model = create();
  set_requires_grad(model.head.bias, false);
  convert_to(model, DType::f64);
  EXPECT_EQ(model.head.weight.dtype(), DType::f64);
  EXPECT_TRUE(needs_grad(model.head.weight));
  EXPECT_FALSE(needs_grad(model.head.bias));
  move_to(model, kCpu);
  EXPECT_EQ(model.head.weight.device(), kCpu);
  EXPECT_TRUE(needs_grad(model.head.weight));
  EXPECT_THROW(move_to(model, {Device::Kind::cuda, 999}), DeviceError);
}

}  // namespace
}  // namespace attend
