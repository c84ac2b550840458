#include "cli/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>

#include "attend/generate/classify.h"
#include "attend/hub/hub.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"

namespace attend::cli {
namespace {

constexpr const char* kClassifyExamples = R"(
Examples:
  attend classify reviews "I would buy it again." "物有所值"
  attend classify reviews -i new.txt --probabilities
  cat new.txt | attend classify reviews --json
  attend classify vit-base cat.jpg dog.png --probabilities

The output has one label for each input line, in the same order; an empty line stays empty. --probabilities adds a
column for each label, the likeliest first. A model with a single label (similarity, relevance) prints its score
instead. An image classifier takes PNG and JPEG files instead of texts, and prints each file name before its label.)";

struct ClassifyArguments {
  CommonOptions common;
  bool probabilities = false, pairs = false;
};

/// Indices of the labels, likeliest first.
std::vector<size_t> by_score(const Classified& result) {
  std::vector<size_t> order(result.scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t i) { return result.scores[i]; });
  return order;
}

std::string fixed_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

std::string text_line(const Classified& result, const std::vector<std::string>& labels, bool with_probabilities) {
  if (result.label < 0) return "";
  if (labels.size() == 1) return fixed_number(result.scores[0]);
  std::string line = in_one_line(labels[static_cast<size_t>(result.label)]);
  if (!with_probabilities) return line;
  for (const size_t i : by_score(result)) {
    line.append("\t").append(in_one_line(labels[i])).append("=").append(fixed_number(result.scores[i]));
  }
  return line;
}

Json to_json(const Classified& result, const std::string& text, const std::vector<std::string>& labels,
             LabelScores scores = LabelScores::shares) {
  const char* name = scores == LabelScores::values ? "values" : "probabilities";
  Json json{{"text", text}, {"label", nullptr}, {name, Json::object()}};
  if (result.label < 0) return json;
  json["label"] = labels[static_cast<size_t>(result.label)];
  for (const size_t i : by_score(result)) json[name][labels[i]] = result.scores[i];
  json["cut"] = result.is_cut;
  return json;
}

void classify_pictures(const ClassifyArguments& arguments, const ModelFolder& folder) {
  const ImageModel& model = image_model(folder);
  const std::vector<std::string> labels = model.labels();
  const ImagePreparation preparation = read_image_preparation(folder.path, model.image_size(), model.channels());
  LineWork work("classify", arguments.common, {.unit = "images", .chunk = {.lines = 1}, .are_texts_files = true});
  for (auto files = work.next(); !files.empty(); files = work.next()) {
    for (const std::string& file : files) {
      const Classified result = classify(model, preparation, read_image(file));
      work.output().line(arguments.common.json
                             ? json_line(to_json(result, file, labels))
                             : in_one_line(file) + "\t" + text_line(result, labels, arguments.probabilities));
      work.flush();
      work.done();
    }
  }
  work.finish(model.context());
}

void run_classify(const ClassifyArguments& arguments) {
  const Device device = use(arguments.common.compute);
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  if (folder.model->kind() == ModelKind::pictures) return classify_pictures(arguments, folder);
  const EncoderModel& model = labelled_model(folder);
  const std::vector<std::string> labels = model.labels();
  LineWork work("classify", arguments.common);
  for (auto lines = work.next(); !lines.empty(); lines = work.next()) {
    const auto results =
        arguments.pairs ? classify_pairs(model, *folder.tokenizer, lines) : classify(model, *folder.tokenizer, lines);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (results[i].is_cut) work.cut(static_cast<int64_t>(i));
      work.speed().add(results[i].tokens);
      work.output().line(arguments.common.json ? json_line(to_json(results[i], lines[i], labels, model.label_scores()))
                                               : text_line(results[i], labels, arguments.probabilities));
    }
    work.flush();
    work.done(std::ssize(lines));
  }
  work.finish(model.context());
}

}  // namespace

void add_classify(Command& app) {
  Command* command = app.add_subcommand("classify", "Classify texts or images");
  const auto arguments = std::make_shared<ClassifyArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  command->add_flag("--probabilities", arguments->probabilities, "Add a column with the probability of each label");
  command->add_flag("--pairs", arguments->pairs, "Treat each line as two texts separated by a tab");
  command->footer(kClassifyExamples);
  command->callback([arguments] { run_classify(*arguments); });
}

}  // namespace attend::cli
