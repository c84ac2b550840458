#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// How text is split into words for comparison. The names are sacreBLEU's.
enum class BleuTokenizer {
  none,        ///< split at white space
  v13a,        ///< "13a": mteval-v13a's rules for Western languages, the default
  zh,          ///< each Chinese character is a word; 13a's rules for other text
  characters,  ///< "char": each character except white space is a word
  intl         ///< each Unicode punctuation mark and symbol is a word
};
/// The tokenizer with this name. Throws an Error that lists the names if the name is unknown.
BleuTokenizer bleu_tokenizer(std::string_view name);
/// The recommended tokenizer for a text: zh if at least a fifth of it is Chinese characters (so that a Chinese name in
/// Western text does not count), char if at least a tenth is kana (sacreBLEU uses MeCab for Japanese), else 13a.
BleuTokenizer usual_bleu_tokenizer(std::span<const std::string> lines);
/// The words of a line. Throws FormatError if the line is not UTF-8.
std::vector<std::string> bleu_words(std::string_view line, BleuTokenizer tokenizer);

/// Smoothing for n-gram orders without a match (Chen and Cherry 2014).
enum class BleuSmoothing {
  none,         ///< no smoothing: the score is 0
  floor,        ///< an order without a match has `smoothing_value` matches
  add_k,        ///< adds `smoothing_value` to matches and totals of every order above 1
  exponential,  ///< the first order without a match has 1/2 match, the second 1/4, …: sacreBLEU's default, from NIST
};
/// The smoothing "none", "floor", "add-k" or "exp". Throws an Error that lists these names for any other name.
BleuSmoothing bleu_smoothing(std::string_view name);

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> smoothing_value;  ///< default: 0.1 for floor, 1 for add_k
  bool effective_order = false;           ///< ignore orders longer than the hypothesis; for single sentences
  int64_t max_order = 4;                  ///< largest n of the n-grams
};

/// The counts from which BLEU is computed. The counts of a corpus are the sums over its sentences.
struct BleuStatistics {
  std::vector<int64_t> matches, totals;  ///< [max_order]: hypothesis n-grams that are in a reference; all n-grams
  int64_t hypothesis_length = 0, reference_length = 0;  ///< in words; of several references, the closest in length
  BleuStatistics& operator+=(const BleuStatistics& other);
};

struct BleuScore {
  double score = 0;  ///< 0 … 100
  BleuStatistics statistics;
  std::vector<double> precisions;  ///< smoothed precision of each order, in percent
  double brevity_penalty = 1;
};

/// BLEU (Papineni et al. 2002) as computed by sacreBLEU 2. references[r][i] is the r-th reference of hypotheses[i]. If
/// there are several references, empty ones are ignored. Throws ShapeError if the counts differ or a hypothesis has no
/// reference, and FormatError if a text is not UTF-8.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options = {});
/// BLEU of one sentence. Always uses the effective order.
BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, BleuOptions options = {});

/// The two steps of BLEU: counting and scoring.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const BleuOptions& options = {});
BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options = {});

/// The details of a score: `54.4/26.6/14.9/8.7 (BP = 1.000 ratio = 1.026 hyp_len = 62880 ref_len = 61287)`.
std::string details(const BleuScore& score);
/// sacreBLEU's signature without the version: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`.
std::string bleu_signature(const BleuOptions& options, int64_t references = 1);

}  // namespace attend
