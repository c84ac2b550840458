#include "attend/train/dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "attend/base/error.h"
#include "attend/data/lines.h"
#include "attend/data/split.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "io/json_depth.h"
#include "io/regular_file.h"
#include "text/framing.h"
#include "train/fingerprint.h"

namespace attend {
namespace {
constexpr size_t kMostSamples = 2000;
constexpr std::array<std::string_view, 5> kTokenizerKinds{"char", "word", "bpe", "wordpiece", "sentencepiece"};
constexpr double kTold = 1 << 16;  // bytes of text between two progress reports
constexpr double kTextShare = 0.1, kExampleShare = 0.02;

std::string cache_folder(const std::string& folder) { return folder + "/cache"; }

/// The contents of dataset.json: everything needed to open the data again.
struct Plan {
  CorpusKind kind = CorpusKind::text;
  bool by_line = false;
  bool own_validation = false;
  double share = 0;
  uint64_t seed = 1;
  std::vector<std::string> labels;
  std::vector<Example> samples;
  int64_t dropped = 0;
  std::string prefix;
  int32_t begin = -1;
  std::string training_text, validation_text;  ///< sums of the cached texts, see cache_fingerprint
};

/// Plain text is split into training and validation at one position; other corpora are split by examples.
bool is_stream(const Plan& plan) { return plan.kind == CorpusKind::text; }

Json to_json(const Plan& plan) {
  Json samples = Json::array();
  for (const Example& example : plan.samples) samples.push_back({example.source, example.target});
  return {{"kind", static_cast<int>(plan.kind)},
          {"by_line", plan.by_line},
          {"own_validation", plan.own_validation},
          {"share", plan.share},
          {"seed", plan.seed},
          {"labels", plan.labels},
          {"samples", samples},
          {"dropped", plan.dropped},
          {"prefix", plan.prefix},
          {"begin", plan.begin},
          {"training_text", plan.training_text},
          {"validation_text", plan.validation_text}};
}

Plan plan_from(const Json& json) {
  Plan plan{.kind = static_cast<CorpusKind>(json.at("kind").get<int>()),
            .by_line = json.at("by_line").get<bool>(),
            .own_validation = json.at("own_validation").get<bool>(),
            .share = json.at("share").get<double>(),
            .seed = json.at("seed").get<uint64_t>(),
            .labels = json.at("labels").get<std::vector<std::string>>(),
            .samples = {},
            .dropped = json.at("dropped").get<int64_t>(),
            .prefix = json.value("prefix", ""),
            .begin = json.value("begin", -1),
            .training_text = json.value("training_text", ""),
            .validation_text = json.value("validation_text", "")};
  for (const Json& sample : json.at("samples")) {
    plan.samples.push_back({sample[0].string(), sample[1].string()});
  }
  return plan;
}

/// Temporary copies of standard input and pipes: a corpus is read several times, but these can be read only once.
class Copies {
 public:
  explicit Copies(std::string folder) : folder_(std::move(folder)) {}
  ~Copies() {
    std::error_code error;
    for (const auto& [copy, original] : names_) std::filesystem::remove(copy, error);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  void replace(Corpus& corpus) {
    for (std::vector<std::string>* files : {&corpus.files, &corpus.targets}) {
      for (std::string& file : *files) {
        if (file == "-" || std::filesystem::is_fifo(file)) file = copy_of(file);
      }
    }
  }
  /// Replaces the names of copies in an error message by the names the user gave.
  std::string with_names(std::string message) const {
    for (const auto& [copy, original] : names_) {
      for (size_t at; (at = message.find(copy)) != std::string::npos;) message.replace(at, copy.size(), original);
    }
    return message;
  }

 private:
  std::string copy_of(const std::string& file) {
    const std::string copy = folder_ + "/input-" + std::to_string(names_.size()), name = file == "-" ? "stdin" : file;
    for (const auto& [known, original] : names_) {
      require<Error>(original != name, name, ": is given twice, but can be read only once");
    }
    names_.emplace_back(copy, name);
    if (file == "-") {
      save_stdin(copy);
    } else {
      std::ofstream out(copy, std::ios::binary);
      out << std::ifstream(file, std::ios::binary).rdbuf();
      require<Error>(out.flush().good() || out.tellp() == 0, copy, ": cannot be written");
    }
    return copy;
  }

  std::string folder_;
  std::vector<std::pair<std::string, std::string>> names_;
};

double total_bytes(const Corpus& corpus) {
  double total = 0;
  for (const auto* files : {&corpus.files, &corpus.targets}) {
    for (const std::string& file : *files) {
      std::error_code error;
      const auto size = std::filesystem::file_size(file, error);
      if (!error) total += static_cast<double>(size);
    }
  }
  return total;
}

/// Visits all examples of a corpus and reports progress by bytes of text. Returns the number of dropped lines.
template <class Visit>
int64_t for_each_example(const Corpus& corpus, const std::string& what, const Progress& progress, Visit&& visit) {
  CorpusReader reader(corpus);
  const double total = total_bytes(corpus);
  double done = 0, told = -kTold;
  for (Example example; reader.next(example);) {
    visit(example);
    done += static_cast<double>(example.source.size() + example.target.size() + 2);
    if (!progress || done - told < kTold) continue;
    progress(what, total > 0 ? std::min(done / total, 1.0) : -1);
    told = done;
  }
  if (progress) progress(what, 1);
  return reader.counts().dropped;
}

/// The text that the vocabulary is learned from: both sides of a pair, but no labels.
LineSource text_of(const Corpus& corpus, const Progress& progress) {
  auto reader = std::make_shared<CorpusReader>(corpus);
  auto pending = std::make_shared<std::optional<std::string>>();
  const bool both = corpus.kind == CorpusKind::pairs || corpus.kind == CorpusKind::tsv;
  return [reader, pending, both, progress]() -> std::optional<std::string> {
    if (*pending) return std::exchange(*pending, std::nullopt);
    Example example;
    if (!reader->next(example)) return std::nullopt;
    if (progress && reader->counts().examples % 256 == 0) progress("Learning a vocabulary", -1);
    if (both) *pending = std::move(example.target);
    return std::move(example.source);
  };
}

std::shared_ptr<const Tokenizer> make_tokenizer(const DatasetOptions& options, const Progress& progress) {
  // The name of a kind takes precedence over a file of that name.
  const bool is_kind = std::ranges::find(kTokenizerKinds, options.tokenizer) != kTokenizerKinds.end();
  if (!is_kind && std::filesystem::exists(options.tokenizer)) return load_tokenizer(options.tokenizer);
  if (progress) progress("Learning a vocabulary", -1);
  const TokenizerKind kind = tokenizer_kind(options.tokenizer);
  // A character vocabulary keeps even characters that occur once: others could never be read or generated.
  return train_tokenizer(text_of(options.corpus, progress), {.kind = kind,
                                                             .vocabulary = options.vocabulary,
                                                             .min_count = kind == TokenizerKind::characters ? 1 : 2,
                                                             .lowercase = options.lowercase});
}

std::vector<std::string> labels_of(const Corpus& corpus) {
  std::set<std::string> labels;
  for_each_example(corpus, "", {}, [&](const Example& example) { labels.insert(example.target); });
  require<Error>(labels.size() >= 2, corpus.files[0], ": a classifier needs at least two labels, but the corpus has ",
                 labels.size());
  require<Error>(labels.size() <= 10000, corpus.files[0], ": found ", labels.size(),
                 " labels, at most 10000 expected; is the label in the first column?");
  return {labels.begin(), labels.end()};
}

int32_t label_number(const std::vector<std::string>& labels, const std::string& label, const Corpus& corpus) {
  const auto found = std::ranges::lower_bound(labels, label);
  require<FormatError>(found != labels.end() && *found == label, corpus.files[0], ": label '", label,
                       "' does not occur in the training corpus");
  return static_cast<int32_t>(found - labels.begin());
}

/// A corpus and everything needed to turn it into ids.
struct CacheSource {
  const Corpus& corpus;
  const DatasetOptions& options;
  const Tokenizer& tokenizer;
  const std::vector<std::string>& labels;
  std::string tokenizer_sum;
};

struct WrittenCache {
  std::string text;     ///< sum of the text read
  int64_t dropped = 0;  ///< lines with a blank side
};
WrittenCache write_cache(const std::string& path, const CacheSource& from, const Progress& progress) {
  const Corpus& corpus = from.corpus;
  const Tokenizer& tokenizer = from.tokenizer;
  const DatasetOptions& options = from.options;
  const int64_t columns = corpus.kind == CorpusKind::text ? 1 : 2;
  TokenCacheWriter writer(path, columns, "");
  TextSum sum;
  for (const std::string& setting : {std::to_string(columns), options.prefix, std::to_string(options.max_length)}) {
    sum.add(setting);
  }
  const int64_t dropped = for_each_example(corpus, "Reading " + corpus.files[0], progress, [&](const Example& e) {
    sum.add(e.source);
    sum.add(e.target);
    if (corpus.kind == CorpusKind::text) {
      writer.add({tokenizer.encode(e.source)});
    } else if (corpus.kind == CorpusKind::labelled) {
      const std::vector<int32_t> label{label_number(from.labels, e.target, corpus)};
      const int64_t longest = options.max_length > 1 ? options.max_length : INT64_MAX;
      writer.add({frame_text(tokenizer, e.source, longest).ids, label});
    } else {
      const std::vector<int32_t> source = tokenizer.encode(options.prefix + e.source),
                                 target = tokenizer.encode_target(e.target);
      writer.add({source, target});
    }
  });
  writer.set_fingerprint(cache_fingerprint(from.tokenizer_sum, sum.hex()));
  writer.finish();
  return {sum.hex(), dropped};
}

/// The first kMostSamples validation examples as text.
std::vector<Example> sample_texts(const Corpus& corpus, const std::vector<int64_t>* chosen) {
  std::vector<Example> samples;
  CorpusReader reader(corpus);
  int64_t number = 0;
  size_t next = 0;
  for (Example example; samples.size() < kMostSamples && reader.next(example); ++number) {
    if (chosen && (next >= chosen->size() || (*chosen)[next] != number)) continue;
    ++next;
    samples.push_back(std::move(example));
  }
  return samples;
}

Dataset open_planned(const Plan& plan, const std::string& folder) {
  Dataset data{.kind = plan.kind, .by_line = plan.by_line, .tokenizer = load_tokenizer(folder)};
  data.lowercase = data.tokenizer->decode(data.tokenizer->encode("Ab")) == "ab";  // so may a loaded tokenizer
  const auto open_cache = [&, tokenizer = tokenizer_sum(folder)](const char* name, const std::string& text) {
    return TokenCache::open(cache_folder(folder) + name, cache_fingerprint(tokenizer, text));
  };
  data.training = open_cache("/training.ids", plan.training_text);
  data.validation = plan.own_validation ? open_cache("/validation.ids", plan.validation_text) : data.training;
  const auto all = [](const TokenCache& cache) {
    std::vector<int64_t> numbers(static_cast<size_t>(cache.size()));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    return numbers;
  };
  const int64_t known =
      std::max(data.tokenizer->size(), std::ssize(plan.labels));  // the cache contains label numbers too
  require<FormatError>(std::max(data.training.largest_id(), data.validation.largest_id()) < known, folder,
                       ": the cache has token ids out of range; the tokenizer has ", data.tokenizer->size(), " tokens");
  if (plan.own_validation) {
    data.training_examples = all(data.training);
    data.validation_examples = all(data.validation);
  } else if (is_stream(plan)) {
    data.split = 1 - plan.share;
  } else {
    require<FormatError>(data.training.size() >= 2, "expected at least 2 examples, one of them for validation, got ",
                         data.training.size(), "; add examples, or give --validation FILE");
    Split split = split_examples(data.training.size(), {.validation = plan.share, .seed = plan.seed});
    data.training_examples = std::move(split.training);
    data.validation_examples = std::move(split.validation);
  }
  data.labels = plan.labels;
  data.samples = plan.samples;
  data.dropped = plan.dropped;
  data.prefix = plan.prefix;
  data.begin = plan.begin;
  return data;
}

Dataset read_all(DatasetOptions options, const std::string& folder, const Progress& progress) {
  options.corpus.whole_text = options.corpus.kind == CorpusKind::text && !options.by_line;
  if (options.validation) options.validation->whole_text = options.corpus.whole_text;

  Plan plan{.kind = options.corpus.kind,
            .by_line = options.by_line,
            .own_validation = options.validation.has_value(),
            .share = options.validation_share,
            .seed = options.seed,
            .labels = {},
            .samples = {},
            .dropped = 0,
            .prefix = options.prefix,
            .begin = -1,
            .training_text = {},
            .validation_text = {}};
  if (plan.share == 0) plan.share = is_stream(plan) ? kTextShare : kExampleShare;
  require<Error>(plan.share > 0 && plan.share < 1, "the validation share must be between 0 and 1, got ", plan.share);
  if (plan.kind == CorpusKind::labelled) plan.labels = labels_of(options.corpus);
  const auto tokenizer = make_tokenizer(options, progress);
  if (options.is_framed) plan.begin = template_begin(*tokenizer);
  tokenizer->save(folder);

  const CacheSource source{options.corpus, options, *tokenizer, plan.labels, tokenizer_sum(folder)};
  const WrittenCache written = write_cache(cache_folder(folder) + "/training.ids", source, progress);
  plan.dropped = written.dropped;
  plan.training_text = written.text;
  if (options.validation) {
    const CacheSource held_out{*options.validation, options, *tokenizer, plan.labels, source.tokenizer_sum};
    plan.validation_text = write_cache(cache_folder(folder) + "/validation.ids", held_out, progress).text;
    if (!is_stream(plan)) plan.samples = sample_texts(*options.validation, nullptr);
  } else if (!is_stream(plan)) {
    const Dataset opened = open_planned(plan, folder);
    plan.samples = sample_texts(options.corpus, &opened.validation_examples);
  }
  write_file(cache_folder(folder) + "/dataset.json", to_json(plan).dump(1) + "\n");
  return open_planned(plan, folder);
}

}  // namespace

Dataset prepare_dataset(const DatasetOptions& given, const std::string& folder, const Progress& progress) {
  DatasetOptions options = given;
  std::filesystem::create_directories(cache_folder(folder));
  Copies copies(cache_folder(folder));
  try {
    copies.replace(options.corpus);
    if (options.validation) copies.replace(*options.validation);
    return read_all(options, folder, progress);
  } catch (const FormatError& error) {
    throw FormatError(copies.with_names(error.what()));
  }
}

Dataset open_dataset(const std::string& folder) {
  std::error_code error;
  require<FormatError>(!std::filesystem::is_symlink(cache_folder(folder), error), cache_folder(folder),
                       ": expected a folder, got a symbolic link");
  const std::string path = cache_folder(folder) + "/dataset.json";
  Plan plan;
  try {
    const std::string text = read_regular(path, int64_t{1} << 30, Links::refuse);
    require<FormatError>(is_shallow_json(text), path, ": the JSON is nested too deep");
    plan = plan_from(Json::parse(text));
  } catch (const JsonError&) {
    throw FormatError(path + ": is damaged; train again from the corpus");
  }
  Dataset data = open_planned(plan, folder);
  data.training.verify();
  if (plan.own_validation) data.validation.verify();
  return data;
}

}  // namespace attend
