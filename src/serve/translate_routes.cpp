// POST /translate and GET /languages, as in LibreTranslate's API
#include <algorithm>
#include <set>

#include "io/printable.h"
#include "serve/html_text.h"
#include "serve/languages.h"
#include "serve/look.h"
#include "serve/model_routes.h"
#include "serve/room.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 256;
constexpr int64_t kMostAlternatives = 16;

/// The texts of a request. Each line of a text is translated by itself, of HTML each text between two tags.
struct TranslationWork {
  explicit TranslationWork(Responder own) : responder(std::move(own)) {}

  struct Piece {
    std::string before;                       ///< what stays as it is: a line end, or markup
    std::vector<std::string> translations{};  ///< best first; empty: nothing to translate
  };
  std::shared_ptr<ModelEntry> model;
  Responder responder;
  std::vector<std::vector<Piece>> texts;
  bool is_html = false;
  bool is_list = false;
  int64_t alternatives = 0;
  bool has_alternatives = false;
  std::string detected;                  // the source language, if the request left it open
  std::optional<HypothesisLooks> looks;  // only for one sequence
  TextPart looked;                       // the tokens of the best translation
  size_t missing = 0;
  bool is_over = false;

  /// The translation of a text with the rank-th best of each piece.
  std::string joined(const std::vector<Piece>& pieces, size_t rank) const {
    std::string result;
    for (const Piece& piece : pieces) {
      result += piece.before;
      if (piece.translations.empty()) continue;
      const std::string& text = piece.translations[std::min(rank, piece.translations.size() - 1)];
      result += is_html ? html_escaped(text) : text;
    }
    return result;
  }

  void finish() {
    if (std::exchange(is_over, true)) return;
    Json best = Json::array(), others = Json::array(), detections = Json::array();
    for (const std::vector<Piece>& text : texts) {
      size_t most = 0;
      for (const Piece& piece : text) most = std::max(most, piece.translations.size());
      Json own = Json::array();
      for (size_t rank = 1; rank < most; ++rank) own.push_back(joined(text, rank));
      best.push_back(joined(text, 0));
      others.push_back(std::move(own));
      detections.push_back({{"language", detected}, {"confidence", 100}});
    }
    Json body{{"translatedText", is_list ? best : best[0]}};
    if (has_alternatives) body["alternatives"] = is_list ? others : others[0];
    if (!detected.empty()) body["detectedLanguage"] = is_list ? detections : detections[0];
    if (looks) body["attend"] = looks_json(looked, model->tokenizer());
    responder.send({.body = body.dump()});
  }

  void fail(const RequestError& error) {
    if (!std::exchange(is_over, true)) responder.send(error_response("/translate", error));
  }
};

/// The parts of a text, whose markup is line ends.
std::vector<HtmlPiece> lines_of(const std::string& text) {
  std::vector<HtmlPiece> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back({.markup = begin == 0 ? "" : "\n", .text = text.substr(begin, end - begin)});
    begin = end + 1;
  }
  lines.push_back({.markup = begin == 0 ? "" : "\n", .text = text.substr(begin)});
  return lines;
}

/// In LibreTranslate's words.
[[noreturn]] void missing(const char* name) {
  throw RequestError(400, std::string("Invalid request: missing ") + name + " parameter", name);
}

/// The model that the request names, or else one that translates between its languages.
std::shared_ptr<ModelEntry> choose_model(const RouteContext& context, RequestFields& fields) {
  const auto source = fields.text("source"), target = fields.text("target");
  if (fields.find("model") != nullptr) return context.model(fields);
  if (!source) missing("source");
  if (!target) missing("target");
  std::vector<std::shared_ptr<ModelEntry>> fitting, all;
  for (const auto& model : context.models) {
    if (!model->is_pair()) continue;
    all.push_back(model);
    const auto pair = languages_of(model->own.name);
    const bool has_source = *source == "auto" || (pair && pair->source == *source);
    if (has_source && pair && pair->target == *target) fitting.push_back(model);
  }
  if (fitting.empty() && all.size() == 1 && !languages_of(all[0]->own.name)) return all[0];  // languages not known
  if (fitting.size() == 1) return fitting[0];
  if (fitting.empty()) {
    throw RequestError(400, "no model translates from " + in_quotes(*source) + " to " + in_quotes(*target), "source");
  }
  fields.fail("source", "must name a language: several models translate to the target language");
}

void add_piece(const std::shared_ptr<TranslationWork>& work, HtmlPiece piece, Job& job) {
  const ModelEntry& model = *work->model;
  const std::string line = std::move(piece.text);
  const size_t text = work->texts.size() - 1, place = work->texts.back().size();
  const bool is_blank = frame_source(model.tokenizer(), line, INT64_MAX, model.own.rules.prefix).is_blank;
  if (is_blank && work->is_html) piece.markup += html_escaped(line);
  work->texts.back().push_back({.before = std::move(piece.markup)});
  if (is_blank) return;
  PreparedPrompt prompt = prepare_prompt(model, line, {}, std::nullopt, "q");
  Sequence sequence{.source = prompt.source, .prompt = prompt.prompt, .vocabulary = model.vocabulary};
  sequence.limit = prompt.limit;
  sequence.options = search_by(model.own.rules);
  sequence.options.n_best = work->alternatives + 1;
  sequence.options.beam = std::max(sequence.options.beam, sequence.options.n_best);
  fit_room(model, std::span(&prompt, 1),
           {.rows = sequence.options.beam,
            .is_beam = true,
            .rows_field = work->alternatives > 0 ? "alternatives" : nullptr,
            .prompt_field = "q"});
  sequence.on_done = [work, text, place](const std::vector<Hypothesis>& best) {
    for (const Hypothesis& one : best) {
      work->texts[text][place].translations.push_back(work->model->tokenizer().decode(one.ids));
    }
    if (work->looks) work->looked.tokens = work->looks->tokens_of(best[0].ids);
    if (--work->missing == 0) work->finish();
  };
  if (work->looks) {
    sequence.is_traced = true;
    sequence.on_step = [work](const SequenceStep& step) {
      work->looks->add(step);
      return true;
    };
  }
  ++work->missing;
  work->model->metrics.prompt_tokens += prompt.read();
  job.tokens += sequence.options.beam * (prompt.read() + prompt.limit);
  job.sequences.push_back(std::move(sequence));
}

}  // namespace

void answer_translate(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields = RequestFields::json_or_form(request);
  const Json* q = fields.find("q");
  if (q == nullptr) missing("q");
  const bool is_list = q->is_array();
  const auto model = choose_model(context, fields);
  if (!model->is_pair()) fields.fail("model", "does not translate");
  const std::vector<std::string> texts = fields.texts("q", kMostTexts);
  if (texts.empty()) fields.fail("q", "is empty");
  const auto alternatives = fields.whole("alternatives", 0, kMostAlternatives);
  const std::string format = fields.text("format").value_or("text");
  const bool is_html = format == "html";
  if (!is_html && format != "text") fields.fail("format", "must be \"text\" or \"html\"");
  const bool is_open = fields.text("source").value_or("auto") == "auto";
  fields.text("api_key");  // checked by Admission
  std::optional<LookSettings> look;
  if (const Json* given = fields.find("attend")) look = read_look({*given, "attend"}, model->model());
  if (look && is_list) fields.fail("attend", "requires a 'q' that is a string");
  fields.refuse_others();
  const auto work = std::make_shared<TranslationWork>(std::move(responder));
  work->model = model;
  work->is_html = is_html;
  work->is_list = is_list;
  work->alternatives = alternatives.value_or(0);
  work->has_alternatives = alternatives.has_value();
  if (look) work->looks.emplace(*std::move(look));
  const auto pair = languages_of(model->own.name);
  if (is_open && pair) work->detected = pair->source;
  Job job;
  job.is_wanted = [work] { return !work->responder.is_gone(); };
  job.on_failed = [work](const std::exception_ptr& error) { work->fail(error_of(error)); };
  try {
    for (const std::string& text : texts) {
      work->texts.emplace_back();
      for (HtmlPiece& piece : is_html ? html_pieces(text) : lines_of(text)) add_piece(work, std::move(piece), job);
    }
    if (work->looks && job.sequences.size() > 1) fields.fail("attend", "requires a 'q' with one line to translate");
    if (job.sequences.empty()) return work->finish();
    require_room(*model, job.tokens, "q");
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
