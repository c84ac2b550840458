#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace attend::grammar {

struct CodeRange {
  char32_t first = 0, last = 0;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
  friend auto operator<=>(const CodeRange&, const CodeRange&) = default;
};

/// A set of Unicode code points without surrogates: sorted ranges with gaps between them.
class CodePoints {
 public:
  static constexpr char32_t kLast = 0x10FFFF;

  CodePoints() = default;
  CodePoints(std::initializer_list<CodeRange> ranges);
  static CodePoints all();
  static CodePoints of(std::string_view ascii);  ///< the characters of a text

  void add(CodeRange range);
  void add(const CodePoints& other);
  CodePoints complement() const;
  CodePoints without(const CodePoints& other) const;
  CodePoints common(const CodePoints& other) const;
  bool contains(char32_t code) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const { return ranges_; }

  friend bool operator==(const CodePoints&, const CodePoints&) = default;
  friend auto operator<=>(const CodePoints&, const CodePoints&) = default;

 private:
  std::vector<CodeRange> ranges_;
};

/// Splits code points into the fewest disjoint sets such that each of `sets` is a union of them. Code points outside of
/// all sets are left out.
std::vector<CodePoints> partition(const std::vector<CodePoints>& sets);

}  // namespace attend::grammar
