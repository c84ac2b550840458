#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

struct ChrfOptions {
  int64_t character_order = 6;  ///< largest n of the character n-grams
  int64_t word_order = 0;       ///< largest n of the word n-grams; 2 for chrF++
  double beta = 2;              ///< weight of recall relative to precision
  bool lowercase = false;
  bool whitespace = false;  ///< count white space as characters
  bool epsilon = false;     ///< score orders for which a side is too short as nearly 0 instead of ignoring them
};

/// The counts from which chrF is computed, for each order of characters, then for each order of words. The counts of a
/// corpus are the sums over its sentences.
struct ChrfStatistics {
  struct Order {
    int64_t hypothesis = 0, reference = 0, matches = 0;
  };
  std::vector<Order> orders;
  ChrfStatistics& operator+=(const ChrfStatistics& other);
};

/// chrF (Popović 2015, 2017) as computed by sacreBLEU 2, 0 … 100. references[r][i] is the r-th reference of
/// hypotheses[i]. Each sentence is compared with the reference that gives the best score. If there are several
/// references, empty ones are ignored. Throws ShapeError if the counts differ or a hypothesis has no reference, and
/// FormatError if a text is not UTF-8.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options = {});
double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references,
                     const ChrfOptions& options = {});

/// The two steps of chrF: counting and scoring.
ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options = {});
double chrf_score(const ChrfStatistics& statistics, const ChrfOptions& options = {});

/// The name of the metric: `chrF2`, `chrF2++`.
std::string chrf_name(const ChrfOptions& options);
/// sacreBLEU's signature without the version: `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no`.
std::string chrf_signature(const ChrfOptions& options, int64_t references = 1);

}  // namespace attend
