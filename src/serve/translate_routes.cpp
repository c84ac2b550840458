// POST /translate and GET /languages, as in LibreTranslate's API
#include <algorithm>
#include <set>

#include "io/printable.h"
#include "serve/languages.h"
#include "serve/model_routes.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 256;
constexpr int64_t kMostAlternatives = 16;

/// The texts of a request. Each line is translated by itself.
struct TranslationWork {
  explicit TranslationWork(Responder own) : responder(std::move(own)) {}

  /// The lines of one text: the translations of each, best first.
  struct Text {
    std::vector<std::vector<std::string>> lines;
  };
  std::shared_ptr<ModelEntry> model;
  Responder responder;
  std::vector<Text> texts;
  bool is_list = false;
  int64_t alternatives = 0;
  bool has_alternatives = false;
  std::string detected;  // the source language, if the request left it open
  size_t missing = 0;
  bool is_over = false;

  /// The translation of a text with the rank-th best of each line.
  static std::string joined(const Text& text, size_t rank) {
    std::string result;
    for (size_t i = 0; i < text.lines.size(); ++i) {
      if (i > 0) result += '\n';
      if (!text.lines[i].empty()) result += text.lines[i][std::min(rank, text.lines[i].size() - 1)];
    }
    return result;
  }

  void finish() {
    if (std::exchange(is_over, true)) return;
    Json best = Json::array(), others = Json::array(), detections = Json::array();
    for (const Text& text : texts) {
      size_t most = 0;
      for (const auto& line : text.lines) most = std::max(most, line.size());
      Json own = Json::array();
      for (size_t rank = 1; rank < most; ++rank) own.push_back(joined(text, rank));
      best.push_back(joined(text, 0));
      others.push_back(std::move(own));
      detections.push_back({{"language", detected}, {"confidence", 100}});
    }
    Json body{{"translatedText", is_list ? best : best[0]}};
    if (has_alternatives) body["alternatives"] = is_list ? others : others[0];
    if (!detected.empty()) body["detectedLanguage"] = is_list ? detections : detections[0];
    responder.send({.body = body.dump()});
  }

  void fail(const RequestError& error) {
    if (!std::exchange(is_over, true)) responder.send(error_response(error));
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  lines.push_back(text.substr(begin));
  return lines;
}

/// The model that the request names, or else one that translates between its languages.
std::shared_ptr<ModelEntry> choose_model(const RouteContext& context, RequestFields& fields) {
  const auto source = fields.text("source"), target = fields.text("target");
  if (fields.find("model") != nullptr) return context.model(fields);
  std::vector<std::shared_ptr<ModelEntry>> fitting, all;
  for (const auto& model : context.models) {
    if (!model->is_pair()) continue;
    all.push_back(model);
    const auto pair = languages_of(model->own.name);
    const bool has_source = !source || *source == "auto" || (pair && pair->source == *source);
    if (has_source && (!target || (pair && pair->target == *target))) fitting.push_back(model);
  }
  if (fitting.empty() && all.size() == 1 && !languages_of(all[0]->own.name)) return all[0];  // languages not known
  if (fitting.size() == 1) return fitting[0];
  if (fitting.empty()) {
    throw RequestError(400, "no model translates from " + in_quotes(source.value_or("auto")) + " to " +
                                in_quotes(target.value_or("")));
  }
  fields.fail("source", "must name a language: several models translate to the target language");
}

void add_line(const std::shared_ptr<TranslationWork>& work, const std::string& line, size_t text, Job& job) {
  const ModelEntry& model = *work->model;
  const bool is_blank = frame_source(model.tokenizer(), line, INT64_MAX, model.own.rules.prefix).is_blank;
  work->texts[text].lines.emplace_back();
  if (is_blank) return;
  const size_t place = work->texts[text].lines.size() - 1;
  const PreparedPrompt prompt = prepare_prompt(model, line, {}, std::nullopt);
  Sequence sequence{.source = prompt.source, .prompt = prompt.prompt, .vocabulary = model.vocabulary};
  sequence.limit = prompt.limit;
  sequence.options = search_by(model.own.rules);
  sequence.options.n_best = work->alternatives + 1;
  sequence.options.beam = std::max(sequence.options.beam, sequence.options.n_best);
  sequence.on_done = [work, text, place](const std::vector<Hypothesis>& best) {
    for (const Hypothesis& one : best) {
      work->texts[text].lines[place].push_back(work->model->tokenizer().decode(one.ids));
    }
    if (--work->missing == 0) work->finish();
  };
  ++work->missing;
  work->model->metrics.prompt_tokens += prompt.read();
  job.tokens += sequence.options.beam * (prompt.read() + prompt.limit);
  job.sequences.push_back(std::move(sequence));
}

}  // namespace

void answer_translate(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields = RequestFields::json_or_form(request);
  const auto model = choose_model(context, fields);
  if (!model->is_pair()) fields.fail("model", "does not translate");
  const Json* q = fields.find("q");
  const bool is_list = q != nullptr && q->is_array();
  const std::vector<std::string> texts = fields.texts("q", kMostTexts);
  if (texts.empty()) fields.fail("q", "is missing");
  const auto alternatives = fields.whole("alternatives", 0, kMostAlternatives);
  if (fields.text("format").value_or("text") != "text") fields.fail("format", "must be \"text\"");
  const bool is_open = fields.text("source").value_or("auto") == "auto";
  fields.text("api_key");  // the header Authorization has the key
  fields.refuse_others();
  const auto work = std::make_shared<TranslationWork>(std::move(responder));
  work->model = model;
  work->is_list = is_list;
  work->alternatives = alternatives.value_or(0);
  work->has_alternatives = alternatives.has_value();
  const auto pair = languages_of(model->own.name);
  if (is_open && pair) work->detected = pair->source;
  Job job;
  job.is_wanted = [work] { return !work->responder.is_gone(); };
  job.on_failed = [work](const std::exception_ptr& error) { work->fail(error_of(error)); };
  try {
    for (const std::string& text : texts) {
      work->texts.emplace_back();
      for (const std::string& line : lines_of(text)) add_line(work, line, work->texts.size() - 1, job);
    }
    if (job.sequences.empty()) return work->finish();
    require_room(*model, job);
    add_job(*model, request, {}, std::move(job));
  } catch (...) {
    work->fail(error_of(std::current_exception()));
  }
}

void answer_languages(RouteContext& context, const HttpRequest&, Responder& responder) {
  std::map<std::string, std::set<std::string>> targets;
  for (const auto& model : context.models) {
    if (!model->is_pair()) continue;
    if (const auto pair = languages_of(model->own.name)) targets[pair->source].insert(pair->target);
  }
  Json result = Json::array();
  for (const auto& [code, others] : targets) {
    result.push_back({{"code", code},
                      {"name", language_name(code)},
                      {"targets", std::vector<std::string>(others.begin(), others.end())}});
  }
  responder.send({.body = result.dump()});
}

}  // namespace attend
