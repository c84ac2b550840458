// A whole model in your own program: learn a vocabulary, train a small language model, save it to a folder, load it
// again, and generate text. `attend train gpt` does the same with files, checkpoints and a validation set.
#include <filesystem>

#include <attend/autograd/autograd.h>
#include <attend/generate/generate_text.h>
#include <attend/models/registry.h>
#include <attend/ops/shape.h>
#include <attend/optim/adam.h>
#include <attend/tensor/creation.h>
#include "show.h"

using namespace attend;

int main() {
  const std::string text = "山重水复疑无路，柳暗花明又一村。";
  bool given = false;
  const auto lines = [&]() -> std::optional<std::string> {
    if (std::exchange(given, true)) return std::nullopt;
    return text + text;
  };
  const auto tokenizer = train_tokenizer(lines, {.kind = TokenizerKind::characters, .vocabulary = 100, .min_count = 1});

  Rng rng{.seed = 1};
  const auto model = create_model(
      with_settings(
          preset_config("gpt", "tiny"),
          {{"vocab_size", std::to_string(tokenizer->size())}, {"layers", "1"}, {"dim", "32"}, {"dropout", "0"}}),
      rng);
  const auto& gpt = dynamic_cast<const LanguageModel&>(*model);
  const std::vector<int32_t> pieces = tokenizer->encode(text + text);
  const Tensor ids = tensor<int64_t>({pieces.begin(), pieces.end()}, {1, static_cast<int64_t>(pieces.size())});
  Adam adam(model->parameters(), {.lr = 1e-2});
  double loss = 0;
  for (int step = 0; step < 60; ++step) {
    const int64_t last = ids.dim(1) - 1;
    const Tensor value = gpt.head().loss(gpt.hidden(slice(ids, 1, 0, last)), slice(ids, 1, 1, last + 1));
    backward(value);
    adam.step();
    for (const auto& [name, parameter] : model->parameters()) zero_grad(parameter);
    loss = value.item();
  }
  std::printf("loss %.4f\n", loss);

  const std::string folder = std::filesystem::temp_directory_path() / "attend-example-11";
  save_model(*model, folder);
  tokenizer->save(folder);
  const auto loaded = load_model(folder);
  const std::vector<std::string> prompts{"山重水复"};
  const auto written = generate_text(dynamic_cast<const LanguageModel&>(*loaded), *load_tokenizer(folder), prompts,
                                     {.tokens = 12, .sampling = {.temperature = 0}});
  std::filesystem::remove_all(folder);
  std::printf("%s%s\n", prompts[0].c_str(), written[0].text.c_str());
  example::claim(prompts[0] + written[0].text == text, "the model continues the text as trained");
  return example::failures();
}
