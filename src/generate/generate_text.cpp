#include "attend/generate/generate_text.h"

#include "attend/base/error.h"
#include "attend/generate/search.h"
#include "attend/generate/text_stream.h"
#include "generate/engine.h"
#include "generate/limits.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kUsualTokens = 200;

struct Setting {
  const LanguageModel& model;
  const Tokenizer& tokenizer;
  const GenerateOptions& options;
  const OnText& on_text;
  Vocabulary vocabulary;
};

/// One text that is being generated: decodes its tokens, up to the first stop string.
class TextWriter {
 public:
  TextWriter(const Setting& setting, GeneratedText& result, std::span<const int32_t> prompt)
      : setting_(setting), result_(result), stream_(setting.tokenizer, prompt), stops_(setting.options.stop) {
    result_.prompt_tokens = std::ssize(prompt);
  }

  /// Takes the next token; false ends the text.
  bool take(const WrittenNode& node) {
    result_.log_probability = node.log_probability;
    std::string piece;
    if (!setting_.vocabulary.is_end(node.id)) {
      result_.ids.push_back(node.id);
      piece = stops_.push(stream_.push(node.id));
    }
    if (node.is_finished && !stops_.is_stopped()) {
      result_.ending = node.is_cut ? Ending::length : Ending::end;
      piece += stops_.push(stream_.finish());
    }
    if (stops_.is_stopped()) result_.ending = Ending::stop;
    const bool is_done = node.is_finished || stops_.is_stopped();
    if (is_done) piece += stops_.finish();
    result_.text += piece;
    if (setting_.on_text && !setting_.on_text({result_.prompt, result_.copy, piece})) {
      if (!is_done) result_.ending = Ending::callback;
      return false;
    }
    return !is_done;
  }

 private:
  const Setting& setting_;
  GeneratedText& result_;
  TextStream stream_;
  StopFilter stops_;
};

void check(const GenerateOptions& options) {
  check_sampling(options.sampling);
  const int64_t tokens = options.tokens.value_or(kUsualTokens);
  require<ShapeError>(tokens >= 1, "generate: tokens must be at least 1, got ", tokens);
  require<ShapeError>(options.copies >= 1, "generate: copies must be at least 1, got ", options.copies);
  require<ShapeError>(options.beam >= 1, "generate: beam must be at least 1, got ", options.beam);
  require<ShapeError>(options.beam == 1 || options.copies <= options.beam, "generate: ", options.copies,
                      " copies requested, but the beam is ", options.beam);
  require<ShapeError>(options.batch_rows >= 1, "generate: batch_rows must be at least 1, got ", options.batch_rows);
}

/// Fills in `result` with a hypothesis, cut at the first stop string.
void fill(GeneratedText& result, const Setting& setting, std::span<const int32_t> prompt, Hypothesis found) {
  TextStream stream(setting.tokenizer, prompt);
  StopFilter stops(setting.options.stop);
  for (const int32_t id : found.ids) result.text += stops.push(stream.push(id));
  result.text += stops.push(stream.finish());
  result.ending = stops.is_stopped() ? Ending::stop : found.is_cut ? Ending::length : Ending::end;
  result.text += stops.finish();
  result.ids = std::move(found.ids);
  result.log_probability = found.log_probability;
  result.prompt_tokens = std::ssize(prompt);
}

using Prompts = std::span<const std::vector<int32_t>>;

/// Samples each text token by token.
void sample_texts(const Setting& setting, Prompts prompts, std::span<GeneratedText> results) {
  const GenerateOptions& options = setting.options;
  Engine engine(setting.model, {.rows = options.batch_rows,
                                .use_cache = options.use_cache,
                                .cache_type = options.cache_type,
                                .draft_tokens = options.draft_tokens});
  std::vector<TextWriter> writers;
  writers.reserve(results.size());
  for (GeneratedText& result : results) {
    const std::vector<int32_t>& prompt = prompts[static_cast<size_t>(result.prompt)];
    TextWriter& writer = writers.emplace_back(setting, result, prompt);
    engine.add({.prompt = prompt,
                .vocabulary = setting.vocabulary,
                .options = {.ends_at_limit = false,
                            .sampling = options.sampling,
                            .rules = options.rules,
                            .constraint = options.constraint},
                .limit = most_tokens(options, std::ssize(prompt)),
                .index = static_cast<uint64_t>(options.first_index + result.prompt),
                .copy = static_cast<uint32_t>(result.copy),
                .slides = true,
                .on_step = [&writer](const SequenceStep& step) { return writer.take(step.nodes[0]); }});
  }
  while (engine.step()) {
  }
}

/// Continues each prompt with beam search. Calls the callback in the order of the prompts.
void search_texts(const Setting& setting, Prompts prompts, std::span<GeneratedText> results) {
  const GenerateOptions& options = setting.options;
  const auto copies = static_cast<size_t>(options.copies);
  SearchOptions search_options = search_by(options.rules);
  search_options.beam = options.beam;
  search_options.n_best = options.copies;
  search_options.ends_at_limit = false;
  search_options.use_cache = options.use_cache;
  search_options.cache_type = options.cache_type;
  search_options.draft_tokens = options.draft_tokens;
  search_options.constraint = options.constraint;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::span<GeneratedText> own = results.subspan(i * copies, copies);
    search_options.max_length = most_tokens(options, std::ssize(prompts[i]));
    search(setting.model, setting.vocabulary, std::span(&prompts[i], 1), search_options,
           [&](int64_t, std::vector<Hypothesis> best) {
             for (size_t j = 0; j < best.size(); ++j) fill(own[j], setting, prompts[i], std::move(best[j]));
           });
    for (GeneratedText& result : own) {
      if (setting.on_text && !setting.on_text({result.prompt, result.copy, result.text})) break;
    }
  }
}

}  // namespace

int64_t most_tokens(const GenerateOptions& options, int64_t prompt_tokens) {
  return token_limit(options.rules, options.tokens.value_or(0), prompt_tokens, kUsualTokens);
}

std::vector<GeneratedText> generate_text(const LanguageModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> prompts, const GenerateOptions& options,
                                         const OnText& on_text) {
  std::vector<std::vector<int32_t>> starts;
  for (const std::string& prompt : prompts)
    starts.push_back(frame_prompt(tokenizer, prompt, options.rules.as_transformers));
  return generate_from_ids(model, tokenizer, starts, options, on_text);
}

std::vector<GeneratedText> generate_from_ids(const LanguageModel& model, const Tokenizer& tokenizer,
                                             std::span<const std::vector<int32_t>> prompts,
                                             const GenerateOptions& options, const OnText& on_text) {
  check(options);
  for (const auto& prompt : prompts) require<ShapeError>(!prompt.empty(), "generate: a prompt has no tokens");
  Setting setting{model, tokenizer, options, on_text, Vocabulary::of(tokenizer, model.vocab_size(), options.rules)};
  if (options.goes_past_end) setting.vocabulary.ends.clear();
  std::vector<GeneratedText> results;
  for (int64_t prompt = 0; prompt < std::ssize(prompts); ++prompt) {
    for (int64_t copy = 0; copy < options.copies; ++copy) results.push_back({.prompt = prompt, .copy = copy});
  }
  if (options.beam > 1) {
    search_texts(setting, prompts, results);
  } else {
    sample_texts(setting, prompts, results);
  }
  return results;
}

std::string generate_text(const LanguageModel& model, const Tokenizer& tokenizer, const std::string& prompt,
                          const GenerateOptions& options) {
  return generate_text(model, tokenizer, std::span(&prompt, 1), options)[0].text;
}

}  // namespace attend
