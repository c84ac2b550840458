#include "sacrebleu.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>

#include "attend/base/error.h"
#include "attend/text/chrf.h"

namespace attend::golden {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

void check_corpus(const json& section) {
  const auto hypotheses = section.at("hyps").get<Strings>();
  const auto references = section.at("refs").get<std::vector<Strings>>();
  for (const json& c : section.at("cases")) {
    expect_near(c.at(0).dump(), corpus_bleu(hypotheses, references, bleu_options(c.at(0))).score, c.at(1));
  }
  const Strings nothing(hypotheses.size());
  expect_near("all_hypotheses_empty", corpus_bleu(nothing, references).score, section.at("all_hypotheses_empty"));
  for (const auto& [order, score] : section.at("max_ngram_order").items()) {  // the reference has two decimals
    const BleuScore ours = corpus_bleu(hypotheses, references, {.max_order = std::stol(order)});
    expect_near("max_ngram_order " + order, ours.score, std::stod(score.get<std::string>()), 0.005001);
  }
}

void check_raw(const json& section) {
  const BleuOptions options{.tokenizer = BleuTokenizer::none,
                            .smoothing = BleuSmoothing::floor,
                            .smoothing_value = 0.01,
                            .effective_order = true};
  for (const json& c : section) {
    const auto hypotheses = c.at(0).get<Strings>();
    const auto references = c.at(1).get<std::vector<Strings>>();
    expect_near(c.at(0).dump(), corpus_bleu(hypotheses, references, options).score / 100, c.at(2));
  }
}

void expect_counts(const BleuStatistics& ours, const json& section) {
  require<FormatError>(ours.matches == section.at("counts").get<std::vector<int64_t>>(), "the counts are others");
  require<FormatError>(ours.totals == section.at("totals").get<std::vector<int64_t>>(), "the totals are others");
}

void check_statistics(const json& section) {
  const Strings references{section.at("ref")};
  BleuOptions options{.tokenizer = BleuTokenizer::none, .smoothing = BleuSmoothing::floor, .smoothing_value = 0.1};
  const BleuStatistics ours = bleu_statistics(section.at("hyp").get<std::string>(), references, options);
  expect_counts(ours, section);
  expect_near("bleu_floor_0.1", bleu_score(ours, options).score / 100, section.at("bleu_floor_0.1"));
  options.smoothing_value = 0;
  expect_near("bleu_floor_0.0", bleu_score(ours, options).score / 100, section.at("bleu_floor_0.0"));
}

void check_from_statistics(const json& section) {
  const BleuStatistics statistics{.matches = section.at("counts"),
                                  .totals = section.at("totals"),
                                  .hypothesis_length = section.at("sys_len"),
                                  .reference_length = section.at("ref_len")};
  expect_near("bleu", bleu_score(statistics).score / 100, section.at("bleu/100"));
}

void check_sentence(const json& section) {
  const std::string hypothesis = section.at("hyp");
  const Strings references{section.at("ref")};
  for (const json& c : section.at("cases [smooth_method, smooth_value, lowercase, tokenize, score]")) {
    json options{{"smooth_method", c.at(0)}, {"lowercase", c.at(2)}, {"tokenize", c.at(3)}};
    if (!c.at(1).is_null()) options["smooth_value"] = c.at(1);
    const BleuScore ours = sentence_bleu(hypothesis, references, bleu_options(options));
    expect_near(options.dump(), ours.score, c.at(4), section.at("tolerance"));
  }
}

void check_chrf(const json& section) {
  for (const json& c : section) {  // the reference has four decimals
    const auto hypotheses = c.at(0).get<Strings>();
    const std::vector<Strings> references{c.at(1)};
    expect_near(c.at(0).dump(), corpus_chrf(hypotheses, references, {.beta = 3, .epsilon = true}), c.at(2), 5e-5);
  }
}

Strings read_lines(const std::string& path) {
  std::ifstream file(path);
  Strings lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Calls visit(hypotheses, references, expected) for each system whose output is in the folder.
template <class Visit>
void for_each_system(const json& section, const std::string& folder, Visit&& visit) {
  const std::vector<Strings> references{read_lines(folder + "/reference.de")};
  int found = 0;
  for (const auto& [system, expected] : section.items()) {
    const std::string path = folder + "/" + system + ".de";
    if (!std::filesystem::exists(path)) continue;
    ++found;
    visit(read_lines(path), references, expected);
  }
  require<FormatError>(found > 0, "there is no output of any system");
}

void check_untokenized(const json& section, const std::string& folder) {
  for_each_system(section, folder, [](const Strings& hypotheses, const auto& references, const json& expected) {
    const BleuScore ours = corpus_bleu(hypotheses, references, {.tokenizer = BleuTokenizer::none});
    expect_near("bleu", ours.score, expected.at("bleu"));
    expect_counts(ours.statistics, expected);
    expect_equal("hyp_len", ours.statistics.hypothesis_length, expected.at("hyp_len"));
    expect_equal("ref_len", ours.statistics.reference_length, expected.at("ref_len"));
  });
}

void check_13a(const json& section, const std::string& folder) {
  for_each_system(section, folder, [](const Strings& hypotheses, const auto& references, const json& expected) {
    const BleuScore ours = corpus_bleu(hypotheses, references);
    expect_near("bleu_13a", ours.score, expected.at("bleu_13a"), 5.0001e-5);  // the reference has four decimals
    expect_near("precisions", ours.precisions, expected.at("precisions"), 0.050001);
    expect_equal("hyp_len", ours.statistics.hypothesis_length, expected.at("hyp_len"));
    expect_equal("ref_len", ours.statistics.reference_length, expected.at("ref_len"));
  });
}

/// `BLEU 20.8 54.4/26.6/14.9/8.7 BP 1.000 ratio 1.026 hyp_len 62880 ref_len 61287; chrF2 52.0`, or parts of it.
void check_official(const json& section, const std::string& folder) {
  for_each_system(section, folder, [](const Strings& hypotheses, const auto& references, const json& expected) {
    const auto text = expected.get<std::string>();
    std::smatch bleu, chrf;
    const bool both = std::regex_search(text, bleu, std::regex("BLEU ([0-9.]+)")) &&
                      std::regex_search(text, chrf, std::regex("chrF2 ([0-9.]+)"));
    require<FormatError>(both, "expected BLEU and chrF2 in '", text, "'");
    expect_near("BLEU", corpus_bleu(hypotheses, references).score, std::stod(bleu[1]), 0.050001);
    expect_near("chrF2", corpus_chrf(hypotheses, references), std::stod(chrf[1]), 0.050001);
  });
}

}  // namespace

void check_sacrebleu(const json& file, const std::string& folder) {
  using Check = std::function<void(const json&)>;
  const auto in_folder = [&](auto check) { return [check, &folder](const json& section) { check(section, folder); }; };
  // A section is recognised by the beginning of its name; the part in brackets says how its values were computed.
  const std::vector<std::pair<std::string, Check>> checks{{"source", [](const json&) {}},
                                                          {"corpus_bleu", check_corpus},
                                                          {"raw_corpus_bleu", check_raw},
                                                          {"statistics", check_statistics},
                                                          {"score_from_statistics", check_from_statistics},
                                                          {"sentence_bleu", check_sentence},
                                                          {"chrf", check_chrf},
                                                          {"wmt17_en_de (tokenize none", in_folder(check_untokenized)},
                                                          {"wmt17_en_de official", in_folder(check_official)},
                                                          {"wmt17_en_de tok:13a", in_folder(check_13a)}};
  for (const auto& [name, section] : file.items()) {
    const auto found = std::ranges::find_if(checks, [&](const auto& check) { return name.starts_with(check.first); });
    require<FormatError>(found != checks.end(), "nothing checks ", name);
    try {
      found->second(section);
    } catch (const std::exception& error) {
      throw FormatError(found->first + ": " + error.what());
    }
  }
}

}  // namespace attend::golden
