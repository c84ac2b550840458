// Look inside a model: run it once over a text, then read what you want to see. Nothing of size N × N is stored:
// weights, scores and figures are computed on demand. `attend view` shows the same in the browser.
#include <algorithm>

#include <attend/inspect/arrays.h>
#include <attend/inspect/heads.h>
#include <attend/inspect/picture.h>
#include <attend/models/registry.h>
#include "show.h"

using namespace attend;
using example::claim;

int main() {
  const std::string text = "山重水复疑无路，柳暗花明又一村。";
  bool given = false;
  const auto lines = [&]() -> std::optional<std::string> {
    return std::exchange(given, true) ? std::nullopt : std::optional(text);
  };
  const auto tokenizer = train_tokenizer(lines, {.kind = TokenizerKind::characters, .vocabulary = 100, .min_count = 1});
  Rng rng{.seed = 1};
  const auto model = create_model(  // untrained: its attention is nearly uniform
      with_settings(preset_config("gpt", "tiny"), {{"vocab_size", std::to_string(tokenizer->size())}, {"layers", "2"}}),
      rng);

  const Run run = capture(*model, *tokenizer, {.text = text});
  for (const RunAttention& attention : run.attention) {
    std::printf("%s: %lld heads, %lld queries\n", attention.trace.path.c_str(),
                static_cast<long long>(attention.heads()), static_cast<long long>(attention.queries()));
  }
  const Array row = run_array(run, "weights/1/0", {.first_row = 3, .end_row = 4});  // layer 1, head 0, the fourth token
  for (size_t key = 0; key < 4; ++key) {
    std::printf("%s gives %.3f to %s\n", run.sides[0].tokens[3].text.c_str(), static_cast<double>(row.values[key]),
                run.sides[0].tokens[key].text.c_str());
  }
  const HeadFigures figures = head_figures(run)[0];
  std::printf("its first head: entropy %.2f nats, %.1f tokens away on average\n", figures.entropy, figures.distance);

  // The same with that head switched off and the first token masked.
  const Run other = capture(
      *model, *tokenizer, {.text = text, .heads = {{.attention = 0, .head = 0}}, .tokens = {{.side = 0, .index = 0}}});
  claim(run_array(other, "weights/1/0").values[16] == 0, "a masked token gets no weight");
  claim(picture_svg(run).starts_with("<svg"), "all heads as a picture");
  return example::failures();
}
