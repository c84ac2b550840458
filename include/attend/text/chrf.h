#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

struct ChrfOptions {
  int64_t character_order = 6;
  int64_t word_order = 0;  ///< 2 for chrF++
  double beta = 2;         ///< how many times more recall weighs than precision
  bool lowercase = false;
  bool whitespace = false;  ///< counted among the characters
  bool epsilon = false;     ///< an order one side is too short for counts as nearly 0, instead of not at all
};

/// What chrF is computed from; those of sentences add up to those of a corpus. One entry an order: characters, then
/// words.
struct ChrfStatistics {
  struct Order {
    int64_t hypothesis = 0, reference = 0, matches = 0;
  };
  std::vector<Order> orders;
  ChrfStatistics& operator+=(const ChrfStatistics& other);
};

/// chrF (Popović 2015, 2017) as sacreBLEU 2 computes it, 0 … 100. references[r][i] is the r-th reference of
/// hypotheses[i], and each sentence is compared with the reference it is most like; an empty one of several is left
/// out. Throws ShapeError for unequal counts or an i without any reference, and FormatError for what is not UTF-8.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options = {});
double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references,
                     const ChrfOptions& options = {});

/// The two steps of it.
ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options = {});
double chrf_score(const ChrfStatistics& statistics, const ChrfOptions& options = {});

/// `chrF2`, `chrF2++`.
std::string chrf_name(const ChrfOptions& options);
/// `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no`: sacreBLEU's signature but for the version of the program.
std::string chrf_signature(const ChrfOptions& options, int64_t references = 1);

}  // namespace attend
