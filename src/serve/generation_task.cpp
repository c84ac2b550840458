#include "serve/generation_task.h"

#include <algorithm>
#include <random>

#include "generate/limits.h"
#include "serve/look.h"
#include "serve/model_routes.h"
#include "serve/room.h"
#include "text/framing.h"

namespace attend {
namespace {

std::string random_id(const char* prefix) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device device;
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kDigits[device() % 16];
  return id;
}

/// A text that reaches a dead end of its format gets status 400 and not 500, which clients would retry.
RequestError failure_of(const std::exception_ptr& error, const GenerationSettings& settings) {
  try {
    std::rethrow_exception(error);
  } catch (const ConstraintError& known) {
    const bool has_calls = settings.tools.choice != ToolChoice::none;
    return {400, known.what(), has_calls ? "tools" : "response_format", "format_dead_end"};
  } catch (...) {
    return error_of(error);
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void too_long(int64_t tokens, int64_t context, const std::string& field) {
  const std::string subject = field == "prompt" ? "the prompt" : "a text of '" + field + "'";
  throw RequestError(400,
                     subject + " has " + std::to_string(tokens) + " tokens, but the model's context is " +
                         std::to_string(context) + " tokens",
                     field, "context_length_exceeded");
}

}  // namespace

Json looks_json(const TextPart& part, const Tokenizer& tokenizer) {
  Json result = Json::array();
  for (const TokenRecord& token : part.tokens) {
    if (token.look.is_null()) continue;
    result.push_back({{"id", token.id}, {"token", token_text(tokenizer, token.id).text}, {"looked", token.look}});
  }
  return result;
}

void add_ids(Json& choice, const TextPart& part) {
  if (!part.prompt_ids.empty()) choice["prompt_token_ids"] = part.prompt_ids;
  choice["token_ids"] = part.ids;
}

PreparedPrompt prepare_prompt(const ModelEntry& model, const std::string& text, std::vector<int32_t> ids,
                              std::optional<int64_t> max_tokens, const std::string& field) {
  const GenerationRules& rules = model.own.rules;
  const int64_t context = model.context();
  PreparedPrompt result{.text = text};
  if (model.is_pair()) {
    const SearchOptions options = search_by(rules);
    result.source = ids.empty() ? frame_source(model.tokenizer(), text, INT64_MAX, rules.prefix).ids : std::move(ids);
    if (std::ssize(result.source) > context) too_long(std::ssize(result.source), context, field);
    result.prompt = {model.vocabulary.begin};
    const int64_t wanted = options.max_length > 0 ? options.max_length : 3 * std::ssize(result.source) + 10;
    result.limit = std::min(max_tokens.value_or(wanted), options.ends_at_limit ? context - 1 : context);
    return result;
  }
  result.prompt = ids.empty() ? frame_prompt(model.tokenizer(), text, rules.as_transformers) : std::move(ids);
  const int64_t room = context - std::ssize(result.prompt);
  if (room < 0 || (room == 0 && max_tokens != 0)) too_long(std::ssize(result.prompt), context, field);
  result.limit = std::min(max_tokens.value_or(token_limit(rules, 0, std::ssize(result.prompt), room)), room);
  return result;
}

GenerationTask::GenerationTask(Parts parts, Responder responder)
    : model_(std::move(parts.model)),
      settings_(std::move(parts.settings)),
      prompts_(std::move(parts.prompts)),
      shape_(std::move(parts.shape)),
      responder_(std::move(responder)),
      shape_options_{.has_logprobs = settings_.logprobs.has_value(),
                     .has_look = settings_.look.has_value(),
                     .has_ids = settings_.returns_ids},
      id_(random_id(shape_->id_prefix())),
      version_("attend-" + parts.version),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()) {
  samples_ = !settings_.beam && (!model_->is_pair() || !settings_.sampling_field.empty());
  const int64_t own_beam = std::max({int64_t{1}, model_->is_pair() ? model_->own.rules.beam : 1, settings_.n});
  rows_ = samples_ ? settings_.n : settings_.beam.value_or(own_beam);
  for (const PreparedPrompt& prompt : prompts_) {
    for (int64_t i = 0; i < settings_.n; ++i) {
      choices_.push_back(std::make_unique<Choice>(*model_, prompt, settings_));
      choices_.back()->part.index = std::ssize(choices_) - 1;
      if (settings_.returns_ids) choices_.back()->part.prompt_ids = model_->is_pair() ? prompt.source : prompt.prompt;
      if (settings_.tool_format == ToolFormat::none) continue;
      // The ids of calls differ between the turns of a conversation and between the texts of an answer.
      const uint64_t seed = settings_.sampling.seed + (static_cast<uint64_t>(prompt.read()) << 16);
      choices_.back()->calls.emplace(ToolCallParser::Options{.format = settings_.tool_format,
                                                             .names = settings_.tools.names(),
                                                             .is_parallel = settings_.tools.is_parallel,
                                                             .seed = seed + static_cast<uint64_t>(i)});
    }
  }
}

Job GenerationTask::job() {
  const auto self = shared_from_this();
  if (!samples_ && rows_ > 1 && (shape_options_.has_logprobs || shape_options_.has_look)) {
    throw RequestError(400, "'logprobs' and 'attend' require sampling or a beam of 1", "beam");
  }
  const bool is_chat = std::string_view(shape_->id_prefix()) == "chatcmpl-";
  fit_room(*model_, prompts_,
           {.rows = rows_,
            .is_beam = !samples_,
            .is_limit_given = settings_.max_tokens.has_value(),
            .rows_field = settings_.beam    ? "beam"
                          : settings_.n > 1 ? "n"
                                            : nullptr,
            .prompt_field = is_chat ? "messages" : "prompt"});
  Job job;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const PreparedPrompt& prompt = prompts_[i];
    model_->metrics.prompt_tokens += prompt.read();
    job.tokens += rows_ * (prompt.read() + prompt.limit);
    if (prompt.limit > 0) add_sequences(job.sequences, i);
  }
  const bool has_scores = settings_.echoes && settings_.logprobs;
  job.on_start = [self, has_scores] {
    self->start_stream();
    if (has_scores) return;
    for (size_t i = 0; i < self->prompts_.size(); ++i) self->echo(i, {});
    self->finish_empty();
  };
  if (has_scores) job.run = [self](int64_t tokens) { return self->score_prompts(tokens); };
  job.is_wanted = [self] { return !self->is_gone_ && !self->responder_.is_gone(); };
  job.on_failed = [self](const std::exception_ptr& error) { self->fail(failure_of(error, self->settings_)); };
  return job;
}

Sequence GenerationTask::sequence(const PreparedPrompt& prompt) const {
  Sequence result{.source = prompt.source, .prompt = prompt.prompt, .vocabulary = model_->vocabulary};
  result.limit = prompt.limit;
  result.options = search_by(model_->own.rules);
  result.options.constraint = settings_.constraint;
  result.is_traced = settings_.look.has_value();
  result.candidates = settings_.logprobs.value_or(0);
  if (!model_->is_pair()) result.options.ends_at_limit = false;
  if (settings_.ignores_end) {
    result.vocabulary.ends.clear();
    result.options.ends_at_limit = false;
  }
  if (samples_) {
    result.options.sampling = settings_.sampling;
  } else {
    result.options.beam = rows_;
    result.options.n_best = settings_.n;
  }
  return result;
}

void GenerationTask::add_sequences(std::vector<Sequence>& sequences, size_t prompt) {
  const auto self = shared_from_this();
  const size_t first = prompt * static_cast<size_t>(settings_.n);
  Sequence one = sequence(prompts_[prompt]);
  one.index = prompt;
  if (!samples_ && rows_ > 1) {
    sequences.push_back(one);
    sequences.back().on_done = [self, first](const std::vector<Hypothesis>& best) { self->take_best(first, best); };
    return;
  }
  for (int64_t i = 0; i < settings_.n; ++i) {
    sequences.push_back(one);
    sequences.back().copy = static_cast<uint32_t>(i);
    Choice* choice = choices_[first + static_cast<size_t>(i)].get();
    sequences.back().on_step = [self, choice](const SequenceStep& step) { return self->take(*choice, step); };
  }
}

void GenerationTask::start_stream() {
  if (!settings_.streams) return;
  responder_.start({.type = "text/event-stream; charset=utf-8"});
  for (const auto& choice : choices_) {
    Json opening = shape_->opening(choice->part.index);
    if (!opening.is_null()) write(Json::array({std::move(opening)}), false);
  }
}

/// Adds a prompt to its texts if the request asks for it.
void GenerationTask::echo(size_t index, std::vector<TokenRecord> scores) {
  if (!settings_.echoes) return;
  const PreparedPrompt& prompt = prompts_[index];
  if (!scores.empty()) {
    const std::vector<size_t> offsets = offsets_in(model_->tokenizer(), prompt.prompt, prompt.text);
    for (size_t k = 0; k < offsets.size(); ++k) scores[k].offset = offsets[k];
  }
  const auto copies = static_cast<size_t>(settings_.n);
  for (size_t i = index * copies; i < (index + 1) * copies; ++i) {
    Choice& choice = *choices_[i];
    choice.part.text = prompt.text;
    choice.part.tokens = scores;
    if (settings_.logprobs) choice.offsets = TextOffsets(characters_in(prompt.text));
    if (settings_.streams) flush(choice);
  }
}

/// Scores about `tokens` tokens of the prompts.
Piece GenerationTask::score_prompts(int64_t tokens) {
  Piece piece;
  while (piece.tokens < tokens && scored_ < prompts_.size()) {
    if (!scorer_) {
      scorer_ = std::make_unique<PromptScorer>(*model_, prompts_[scored_].prompt, *settings_.logprobs);
    }
    piece.tokens += scorer_->advance(tokens - piece.tokens);
    if (!scorer_->is_done()) continue;
    echo(scored_++, scorer_->take());
    scorer_ = nullptr;
  }
  piece.is_inside = scorer_ != nullptr;
  piece.is_done = scored_ == prompts_.size();
  if (piece.is_done) finish_empty();
  return piece;
}

/// Ends the texts that get no new tokens.
void GenerationTask::finish_empty() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (prompts_[i / static_cast<size_t>(settings_.n)].limit == 0) finish(*choices_[i], "length");
  }
}

TokenRecord GenerationTask::record(const SequenceStep& step) const {
  const WrittenNode& node = step.nodes[0];
  TokenRecord result{.id = node.id};
  if (settings_.logprobs) {
    result.log_probability = step.rows.log_probability(node.from, node.id);
    std::vector<Continuation> best;
    if (*settings_.logprobs > 0) {
      step.rows.best_of(node.from, *settings_.logprobs, {.size = model_->vocabulary.size}, best);
    }
    for (const Continuation& one : best) {
      result.top.push_back({.id = one.id, .log_probability = step.rows.log_probability(node.from, one.id)});
    }
  }
  if (settings_.look) result.look = look_json(step, node.from, *settings_.look);
  return result;
}

void GenerationTask::note_times(Choice& choice) {
  const auto now = Clock::now();
  if (choice.generated == 0) {
    model_->metrics.first_token.add(std::chrono::duration<double>(now - start_).count());
  } else {
    model_->metrics.between_tokens.add(std::chrono::duration<double>(now - choice.last).count());
  }
  choice.last = now;
}

/// Adds text, of which calls of functions are taken out.
void GenerationTask::add_text(Choice& choice, const std::string& text) {
  if (!choice.calls) {
    choice.part.text += text;
    return;
  }
  ToolCallParser::Piece piece = choice.calls->push(text);
  choice.part.text += piece.text;
  std::ranges::move(piece.calls, std::back_inserter(choice.part.calls));
}

/// Takes the next token; false ends the text.
bool GenerationTask::take(Choice& choice, const SequenceStep& step) {
  const WrittenNode& node = step.nodes[0];
  note_times(choice);
  const bool is_end = !settings_.ignores_end && model_->vocabulary.is_end(node.id);
  if (!is_end || !node.is_cut) ++choice.generated;  // the model did not choose an end token at the limit
  if (!is_end) {
    const std::string piece = choice.stream.push(node.id);
    if (settings_.returns_ids) choice.part.ids.push_back(node.id);
    if (shape_options_.has_logprobs || shape_options_.has_look) choice.part.tokens.push_back(record(step));
    if (shape_options_.has_logprobs) {
      choice.part.tokens.back().offset = choice.offsets.push(token_text(model_->tokenizer(), node.id), piece);
    }
    add_text(choice, choice.stops.push(piece));
  }
  if (node.is_finished && !choice.stops.is_stopped()) add_text(choice, choice.stops.push(choice.stream.finish()));
  const bool is_done = node.is_finished || choice.stops.is_stopped();
  if (is_done) {
    add_text(choice, choice.stops.finish());
    finish(choice, choice.stops.is_stopped() || !node.is_cut ? "stop" : "length");
  } else if (settings_.streams && (!choice.part.text.empty() || !choice.part.calls.empty())) {
    flush(choice);
  }
  return !is_done && !is_gone_;
}

void GenerationTask::take_best(size_t first, const std::vector<Hypothesis>& best) {
  for (size_t i = 0; i < static_cast<size_t>(settings_.n); ++i) {
    Choice& choice = *choices_[first + i];
    if (i >= best.size()) {
      finish(choice, "stop");
      continue;
    }
    if (settings_.returns_ids) choice.part.ids = best[i].ids;
    for (const int32_t id : best[i].ids) add_text(choice, choice.stops.push(choice.stream.push(id)));
    add_text(choice, choice.stops.push(choice.stream.finish()));
    add_text(choice, choice.stops.finish());
    choice.generated = std::ssize(best[i].ids) + (best[i].is_cut ? 0 : 1);
    finish(choice, choice.stops.is_stopped() || !best[i].is_cut ? "stop" : "length");
  }
}

void GenerationTask::flush(Choice& choice) {
  write(Json::array({shape_->choice(choice.part, true, shape_options_)}), false);
  choice.part.text.clear();
  choice.part.first_call += std::ssize(choice.part.calls);
  choice.part.calls.clear();
  choice.part.tokens.clear();
  choice.part.ids.clear();
  choice.part.prompt_ids.clear();
}

void GenerationTask::finish(Choice& choice, const char* reason) {
  if (choice.calls) {
    ToolCallParser::Piece rest = choice.calls->finish();
    choice.part.text += rest.text;
    std::ranges::move(rest.calls, std::back_inserter(choice.part.calls));
    if (choice.calls->has_calls() && std::string_view(reason) == "stop") reason = "tool_calls";
  }
  choice.part.finish = reason;
  choice.is_done = true;
  if (settings_.streams) flush(choice);
  if (++done_ == choices_.size()) finish_all();
}

void GenerationTask::finish_all() {
  is_over_ = true;
  model_->metrics.request.add(seconds_since(start_));
  if (!settings_.streams) {
    Json body = envelope(false), choices = Json::array();
    for (const auto& choice : choices_) choices.push_back(shape_->choice(choice->part, false, shape_options_));
    body["choices"] = std::move(choices);
    body["usage"] = usage();
    return responder_.send({.body = body.dump()});
  }
  if (settings_.includes_usage) write(Json::array(), true);
  responder_.write("data: [DONE]\n\n");
  responder_.finish();
}

void GenerationTask::fail(const RequestError& error) {
  if (std::exchange(is_over_, true)) return;
  if (!responder_.is_started()) return responder_.send(error_response(error));
  responder_.write("data: " + error_json(error) + "\n\n");
  responder_.finish();
}

void GenerationTask::write(const Json& choices, bool has_usage) {
  Json chunk = envelope(true);
  chunk["choices"] = choices;
  if (settings_.includes_usage) chunk["usage"] = has_usage ? usage() : Json();
  if (!responder_.write("data: " + chunk.dump() + "\n\n")) is_gone_ = true;
}

Json GenerationTask::envelope(bool is_chunk) const {
  return {{"id", id_},
          {"object", shape_->object(is_chunk)},
          {"created", created_},
          {"model", model_->own.name},
          {"system_fingerprint", version_}};
}

Json GenerationTask::usage() const {
  int64_t read = 0, generated = 0;
  for (const PreparedPrompt& prompt : prompts_) read += prompt.read();
  for (const auto& choice : choices_) generated += choice->generated;
  return {{"prompt_tokens", read}, {"completion_tokens", generated}, {"total_tokens", read + generated}};
}

}  // namespace attend
