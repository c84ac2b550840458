#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// How text is cut into words before they are compared; the names are sacreBLEU's.
enum class BleuTokenizer {
  none,        ///< at white space
  v13a,        ///< "13a": mteval-v13a's rules for Western languages, the usual choice
  zh,          ///< Chinese characters one by one, the rest by 13a's rules
  characters,  ///< "char": each character but white space
  intl         ///< every punctuation mark and symbol of Unicode on its own
};
/// Throws Error that lists the names for one that is none of them.
BleuTokenizer bleu_tokenizer(std::string_view name);
/// zh for text of which Chinese characters are a fifth or more (a name among Western words is none), char for Japanese
/// (a tenth or more is kana; sacreBLEU would want MeCab), 13a otherwise.
BleuTokenizer usual_bleu_tokenizer(std::span<const std::string> lines);
/// The words of a line. Throws FormatError if it is not UTF-8.
std::vector<std::string> bleu_words(std::string_view line, BleuTokenizer tokenizer);

/// What an order without any match counts as (Chen and Cherry 2014).
enum class BleuSmoothing {
  none,         ///< nothing: the score is 0
  floor,        ///< `smoothing_value` matches
  add_k,        ///< `smoothing_value` more n-grams, all of them matches, for every order above 1
  exponential,  ///< half a match, then a quarter and so on: NIST's way, and sacreBLEU's default
};
/// Of "none", "floor", "add-k" and "exp"; throws Error that lists them for another.
BleuSmoothing bleu_smoothing(std::string_view name);

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> smoothing_value;  ///< 0.1 for floor and 1 for add_k where it is not given
  bool effective_order = false;           ///< leave out orders longer than the hypothesis, as for a single sentence
  int64_t max_order = 4;
};

/// What BLEU is computed from; those of sentences add up to those of a corpus. [max_order] each: n-grams of the
/// hypotheses that a reference has too, and all of them.
struct BleuStatistics {
  std::vector<int64_t> matches, totals;
  int64_t hypothesis_length = 0, reference_length = 0;  ///< in words; of several references the closest in length
  BleuStatistics& operator+=(const BleuStatistics& other);
};

struct BleuScore {
  double score = 0;  ///< 0 … 100
  BleuStatistics statistics;
  std::vector<double> precisions;  ///< in percent, smoothed
  double brevity_penalty = 1;
};

/// BLEU (Papineni et al. 2002) as sacreBLEU 2 computes it. references[r][i] is the r-th reference of hypotheses[i];
/// where there are several, an empty one is left out. Throws ShapeError for unequal counts or an i without any
/// reference, and FormatError for what is not UTF-8.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options = {});
/// Of one sentence; the effective order is always used.
BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, BleuOptions options = {});

/// The two steps of it.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const BleuOptions& options = {});
BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options = {});

/// `54.4/26.6/14.9/8.7 (BP = 1.000 ratio = 1.026 hyp_len = 62880 ref_len = 61287)`
std::string details(const BleuScore& score);
/// `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`: sacreBLEU's signature but for the version of the program.
std::string bleu_signature(const BleuOptions& options, int64_t references = 1);

}  // namespace attend
