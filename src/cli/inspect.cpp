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
  attend inspect en-de "A dog runs in the park." -o dog.html          a page that works offline
  attend inspect en-de "A dog runs." --target "Ein Hund rennt." -o dog.json
  attend inspect novel "Once upon a time" -o heads.svg                all heads, small
  attend inspect en-de "A dog runs." --layer 5 --head 0 -o head.png   one head, large
  attend inspect vit-base dog.jpg -o dog.html                         a model of pictures takes a PNG or a JPEG
  attend inspect vit-base dog.jpg --layer rollout -o dog.png          what reaches [CLS] from where in the picture
  attend inspect vit-base dog.jpg --layer 11 --query r3c5 -o r3c5.svg   where the patch in row 3, column 5 looks

The file's name says what it becomes: .html, .json, .svg or .png; without -o the JSON is printed. The JSON has everything
the page shows: docs/inspect-format.md. A layer is the number of an attention module in the order of the pass, from 0,
or its path (decoder.layers.1.cross_attention). Pictures of a model of pictures are laid over what it saw. PNGs are drawn
with the fonts installed on this machine; for Chinese, Japanese and Korean install one (Debian: fonts-noto-cjk).)";

constexpr const char* kRollout = "rollout";

struct InspectArguments {
  std::string model, text, output, layer, query;
  std::string target, second;
  int64_t head = -1, threads = 0;
  Option *target_option = nullptr, *second_option = nullptr;
};

/// Which attention module is meant by a number or a path.
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
  throw UsageError("--layer: there is no layer '" + name + "'; there are " + known);
}

/// Which token of a picture is meant by its number or its name.
int64_t patch_named(const Run& run, const std::string& name) {
  const std::vector<ShownToken>& tokens = run.sides[0].tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text == name || std::to_string(i) == name) return static_cast<int64_t>(i);
  }
  throw UsageError("--query: there is no patch '" + name + "'; there are " + tokens.front().text + " and " +
                   tokens[1].text + " to " + tokens.back().text);
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
  if (!is_picture && !arguments.query.empty()) throw UsageError("--query is for image classifiers");
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
                 "this attend was built without its page (Node was missing); .json, .svg and .png can be written");
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

/// What the model reads; it becomes the model's example, too.
RunOptions run_options(InspectedModel& model, const InspectArguments& arguments) {
  const bool reads_pictures = model.model->kind() == ModelKind::pictures;
  if (!reads_pictures) suggest_file(arguments.text, "attend inspect " + shell_word(arguments.model) + " - < %FILE");
  RunOptions options{.text = reads_pictures ? arguments.text : text_or_input(arguments.text),
                     .target = {},
                     .second = {},
                     .heads = {},
                     .tokens = {}};
  if (arguments.target_option->count() > 0) {
    if (model.model->kind() != ModelKind::translation) throw UsageError("--target is for translation models");
    options.target = arguments.target;
  }
  if (arguments.second_option->count() > 0) {
    if (model.model->kind() != ModelKind::classification) throw UsageError("--second is for text encoders");
    options.second = arguments.second;
  }
  model.example = options.text;
  model.example_target = options.target;
  if (!reads_pictures) return options;
  take_picture(model, arguments.text);
  if (arguments.text.empty()) std::cerr << "attend: the text is empty: there is nothing but marks to see\n";
  options.text = model.example;
  options.picture = model.example_picture;
  return options;
}

/// Throws what is wrong with the options by themselves.
void check_arguments(const InspectArguments& arguments) {
  const std::string& name = arguments.output;
  const bool is_known = name.empty() || name.ends_with(".html") || name.ends_with(".json") || name.ends_with(".svg") ||
                        name.ends_with(".png");
  if (!is_known) throw UsageError("expected a file that ends in .html, .json, .svg or .png, got '" + name + "'");
  if (arguments.head >= 0 && arguments.layer.empty()) throw UsageError("--head needs --layer");
  const bool is_picture = name.ends_with(".svg") || name.ends_with(".png");
  if (!is_picture && !(arguments.layer.empty() && arguments.query.empty()))
    throw UsageError("--layer, --head and --query are for .svg and .png");
  if (arguments.head >= 0 && arguments.layer == kRollout)
    throw UsageError("rollout is of all heads: it takes no --head");
}

void run_inspect(const InspectArguments& arguments) {
  check_arguments(arguments);
  use_threads(arguments.threads);
  InspectedModel model = open_inspected(arguments.model);
  const Run run = capture(model, run_options(model, arguments));
  const std::string content = content_of(model, run, arguments);
  const std::string& name = arguments.output;
  if (name.empty()) {
    std::cout << content;
  } else {
    write_file(behind_links(name), content);
    std::cerr << "Wrote " << name << '\n';
  }
}

}  // namespace

void add_inspect(Command& app) {
  Command* command = app.add_subcommand("inspect", "Write what a model attends to as a page, JSON or a picture");
  const auto arguments = std::make_shared<InspectArguments>();
  command->add_option("model", arguments->model, "A model folder")->required()->type_name("MODEL");
  command
      ->add_option("text", arguments->text,
                   "What the model reads: a text, or the file of a picture; - is the standard input")
      ->required()
      ->type_name("TEXT");
  command->add_option("-o,--output", arguments->output, "The file to write: .html, .json, .svg or .png")
      ->type_name("FILE");
  arguments->target_option =
      command->add_option("--target", arguments->target, "The translation to look at (default: the model's own)")
          ->type_name("TEXT");
  arguments->second_option =
      command->add_option("--second", arguments->second, "The second text of a pair, for encoders")->type_name("TEXT");
  command->add_option("--layer", arguments->layer, "Pictures: this attention module only; a number or a path");
  command->add_option("--head", arguments->head, "Pictures: this head of it, from 0")->check(whole_number(0, 100000));
  command
      ->add_option("--query", arguments->query,
                   "Pictures of a model of pictures: where this patch looks (default [CLS])")
      ->type_name("PATCH");
  add_threads(*command, arguments->threads);
  command->footer(kInspectExamples);
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace attend::cli
