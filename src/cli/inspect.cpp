#include "cli/commands.h"

#include <charconv>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/inspect/picture.h"
#include "attend/io/files.h"
#include "attend/serve/training_feed.h"
#include "cli/command_line.h"
#include "cli/inspect_tools.h"
#include "cli/inspected.h"
#include "cli/line_work.h"
#include "cli/page.h"
#include "cli/shared_options.h"
#include "cli/train_print.h"
#include "serve/page.h"

namespace attend::cli {
namespace {

constexpr const char* kInspectExamples = R"(
Examples:
  attend inspect en-de "A dog runs in the park." -o dog.html            a page that works offline
  attend inspect en-de "A dog runs." --target "Ein Hund rennt." -o dog.json
  attend inspect novel "Once upon a time" -o heads.svg                  all heads, small
  attend inspect en-de "A dog runs." --layer 5 --head 0 -o head.png     one head, large
  attend inspect vit-base dog.jpg -o dog.html                           an image classifier takes a PNG or a JPEG
  attend inspect vit-base dog.jpg --layer rollout -o dog.png            attention rollout from the image to [CLS]
  attend inspect vit-base dog.jpg --layer 11 --query r3c5 -o r3c5.svg   attention of the patch in row 3, column 5
  attend inspect gpt2 "The Eiffel Tower is in" --lens -o lens.svg       what each layer would say
  attend inspect gpt2 "The Eiffel Tower is in" --attribute --for Paris --against Rome -o parts.csv
  attend inspect gpt2 "The Eiffel Tower is in" --patch "The Colosseum Tower is in" -o patch.svg
  attend inspect gpt2 "a b c a b" --detect -o heads.csv                 previous-token, induction and other heads
  attend inspect gpt2 "dog cat" --probe 5.1 -o probe.json               what head 1 of layer 5 seeks and writes
  attend inspect gpt2 "I think" --steer "love" --away "hate" --steer-at 6 --strength 4 -o steered.html
  attend inspect gpt2 "Hello" --activations "stack.layers.*:output" -o residual.safetensors

The extension of the output file selects the format: .html, .json, .svg or .png; for the tools of interpretability
.json, .csv or .svg. Without -o, the JSON is printed; it has
all the data of the page and is described in docs/inspect-format.md. A layer is the number of an attention module in
order of execution, from 0, or its path (decoder.layers.1.cross_attention). For an image classifier, attention is drawn
over the input image. PNGs use the fonts of this machine; for Chinese, Japanese and Korean text install a font that has
them (Debian: fonts-noto-cjk).)";

constexpr const char* kRollout = "rollout";

struct InspectArguments {
  std::string model, text, output, layer, query;
  std::string target, second;
  int64_t head = -1;
  ComputeOptions compute;
  ToolArguments tools;
  Option *target_option = nullptr, *second_option = nullptr;
};

/// The attention module with this number or path.
int64_t attention_named(const Run& run, const std::string& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) {
    if (number >= 0 && number < std::ssize(run.attention)) return number;
    throw UsageError("--layer: there is no layer " + name + "; the model has " + std::to_string(run.attention.size()) +
                     ", counted from 0");
  }
  std::string known;
  for (size_t i = 0; i < run.attention.size(); ++i) {
    if (run.attention[i].trace.path == name) return static_cast<int64_t>(i);
    known += (i == 0 ? "" : ", ") + run.attention[i].trace.path;
  }
  throw UsageError("--layer: unknown layer '" + name + "'; expected one of " + known);
}

/// The image token with this number or name.
int64_t patch_named(const Run& run, const std::string& name) {
  const std::vector<ShownToken>& tokens = run.sides[0].tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text == name || std::to_string(i) == name) return static_cast<int64_t>(i);
  }
  throw UsageError("--query: unknown patch '" + name + "'; expected " + tokens.front().text + " or " + tokens[1].text +
                   " to " + tokens.back().text);
}

int64_t checked_head(const Run& run, int64_t attention, int64_t head) {
  const int64_t heads = run.attention[static_cast<size_t>(attention)].heads();
  if (head < heads) return head;
  throw UsageError("--head: there is no head " + std::to_string(head) + "; the layer has " + std::to_string(heads) +
                   ", counted from 0");
}

PictureOptions picture_options(const Run& run, const InspectArguments& arguments) {
  PictureOptions options;
  const bool is_picture = run.sides[0].picture.has_value();
  options.is_rollout = is_picture && arguments.layer == kRollout;
  if (!arguments.layer.empty() && !options.is_rollout) options.attention = attention_named(run, arguments.layer);
  if (arguments.head >= 0) options.head = checked_head(run, options.attention.value_or(0), arguments.head);
  if (!is_picture && !arguments.query.empty()) throw UsageError("--query applies only to image classifiers");
  if (!arguments.query.empty()) options.query = patch_named(run, arguments.query);
  return options;
}

std::string document(const InspectedModel& model, const Run& run, const InspectArguments& arguments, bool packed) {
  DocumentOptions options{.version = ATTEND_VERSION, .packed = packed, .training = {}};
  if (const auto log = TrainingFeed::from_log(arguments.model)) options.training = log->json();
  return inspect_document(model, run, options);
}

std::string page_of(const InspectedModel& model, const Run& run, const InspectArguments& arguments) {
  const std::string packed = packed_page();
  require<Error>(!packed.empty(),
                 "this attend was built without its page (Node was missing); use a .json, .svg or .png file");
  return inspect_page(unpacked(packed), document(model, run, arguments, true));
}

std::string content_of(const InspectedModel& model, const Run& run, const InspectArguments& arguments) {
  const std::string& name = arguments.output;
  if (name.ends_with(".html")) return page_of(model, run, arguments);
  if (name.empty() || name.ends_with(".json")) return document(model, run, arguments, false) + "\n";
  const PictureOptions options = picture_options(run, arguments);
  if (name.ends_with(".svg")) return picture_svg(run, options);
  PngPicture picture = picture_png(run, options);
  if (!picture.warning.empty()) std::cerr << "attend: " << picture.warning << '\n';
  return std::move(picture.bytes);
}

/// The model's input, which also becomes its example.
RunOptions run_options(InspectedModel& model, const InspectArguments& arguments) {
  const bool reads_pictures = model.model->kind() == ModelKind::pictures;
  if (!reads_pictures) suggest_file(arguments.text, "attend inspect " + shell_word(arguments.model) + " - < %FILE");
  RunOptions options{.text = reads_pictures ? arguments.text : text_or_input(arguments.text),
                     .target = {},
                     .second = {},
                     .heads = {},
                     .tokens = {}};
  if (arguments.target_option->count() > 0) {
    if (model.model->kind() != ModelKind::translation) throw UsageError("--target applies only to translation models");
    options.target = arguments.target;
  }
  if (arguments.second_option->count() > 0) {
    if (model.model->kind() != ModelKind::classification) throw UsageError("--second applies only to text encoders");
    options.second = arguments.second;
  }
  model.example = options.text;
  model.example_target = options.target;
  if (!reads_pictures) return options;
  take_picture(model, arguments.text);
  if (arguments.text.empty()) std::cerr << "attend: the text is empty; the result shows only special tokens\n";
  options.text = model.example;
  options.picture = model.example_picture;
  return options;
}

/// Checks the options that do not depend on the model.
void check_arguments(const InspectArguments& arguments) {
  const std::string& name = arguments.output;
  arguments.tools.check(name);
  if (arguments.tools.is_tool()) {
    if (!arguments.layer.empty() || !arguments.query.empty())
      throw UsageError("--layer, --head and --query require an .svg or .png file of attention weights");
    return;
  }
  const bool is_known = name.empty() || name.ends_with(".html") || name.ends_with(".json") || name.ends_with(".svg") ||
                        name.ends_with(".png");
  if (!is_known) throw UsageError("expected an output file ending in .html, .json, .svg or .png, got '" + name + "'");
  if (arguments.head >= 0 && arguments.layer.empty()) throw UsageError("--head requires --layer");
  const bool is_picture = name.ends_with(".svg") || name.ends_with(".png");
  if (!is_picture && !(arguments.layer.empty() && arguments.query.empty()))
    throw UsageError("--layer, --head and --query require an .svg or .png file");
  if (arguments.head >= 0 && arguments.layer == kRollout)
    throw UsageError("--layer rollout combines all heads and cannot be combined with --head");
}

void run_inspect(const InspectArguments& arguments) {
  check_arguments(arguments);
  const Device device = use(arguments.compute);
  const ToolArguments& tools = arguments.tools;
  // Gradients need all weights as f32.
  InspectedModel model =
      open_inspected(arguments.model, device, tools.attribute ? WeightOptions{.dtype = "f32"} : WeightOptions{});
  RunOptions options = run_options(model, arguments);
  take_steering(model, tools, options);
  const std::string& name = arguments.output;
  if (!tools.activations.empty()) {
    write_activations(model, tools, options, name);
    std::cerr << "Wrote " << name << '\n';
    return;
  }
  const std::string content = tools.is_tool() ? tool_content(model, tools, options, name)
                                              : content_of(model, steered_run(model, options), arguments);
  if (name.empty()) {
    std::cout << content;
  } else {
    write_file(behind_links(name), content);
    std::cerr << "Wrote " << name << '\n';
  }
}

}  // namespace

void add_inspect(Command& app) {
  Command* command = app.add_subcommand("inspect", "Write a model's attention as a page, JSON or an image");
  const auto arguments = std::make_shared<InspectArguments>();
  add_model(*command, arguments->model);
  command->add_option("text", arguments->text, "Text, or an image file for an image classifier; - is standard input")
      ->required()
      ->type_name("TEXT");
  command
      ->add_option("-o,--output", arguments->output,
                   "Output file: .html, .json, .svg, .png or .csv (default: JSON on standard output)")
      ->type_name("FILE");
  arguments->target_option = command
                                 ->add_option("--target", arguments->target,
                                              "Translation models: target text (default: the model's translation)")
                                 ->type_name("TEXT");
  arguments->second_option =
      command->add_option("--second", arguments->second, "Text encoders: second text of a pair")->type_name("TEXT");
  command
      ->add_option("--layer", arguments->layer,
                   ".svg and .png: attention module, a number or a path; image classifiers: or rollout (default: all)")
      ->type_name("NAME");
  command->add_option("--head", arguments->head, ".svg and .png: attention head of --layer, from 0 (default: all)")
      ->check(whole_number(0, 100000))
      ->type_name("N");
  command
      ->add_option("--query", arguments->query,
                   ".svg and .png of image classifiers: patch whose attention is drawn (default: [CLS])")
      ->type_name("NAME");
  add_tool_options(*command, arguments->tools);
  add_compute_options(*command, arguments->compute);
  command->footer(kInspectExamples);
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace attend::cli
