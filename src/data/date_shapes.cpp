#include "data/date_shapes.h"

#include <array>
#include <string_view>

namespace attend {
namespace {

using Names = std::array<std::string_view, 12>;
using Weekdays = std::array<std::string_view, 7>;

constexpr Names kMonths{"January", "February", "March",     "April",   "May",      "June",
                        "July",    "August",   "September", "October", "November", "December"};
constexpr Names kMonate{"Januar", "Februar", "März",      "April",   "Mai",      "Juni",
                        "Juli",   "August",  "September", "Oktober", "November", "Dezember"};
constexpr Names kShortMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sept", "Oct", "Nov", "Dec"};
constexpr Names kKurzmonate{"Jan.", "Feb.", "März",  "Apr.", "Mai",  "Juni",
                            "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."};
constexpr Weekdays kWeekdays{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
constexpr Weekdays kWochentage{"Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"};
constexpr std::array<std::string_view, 10> kChineseDigits{"〇", "一", "二", "三", "四", "五", "六", "七", "八", "九"};
constexpr std::array<std::string_view, 10> kWideDigits{"０", "１", "２", "３", "４", "５", "６", "７", "８", "９"};

/// Splits a random number into a sequence of small choices.
class Choices {
 public:
  explicit Choices(uint64_t bits) : bits_(bits) {}
  uint64_t of(uint64_t count) {
    const uint64_t choice = bits_ % count;
    bits_ /= count;
    return choice;
  }
  bool one_in(uint64_t count) { return of(count) == 0; }

 private:
  uint64_t bits_;
};

template <class Table>
std::string entry(const Table& table, int index) {
  return std::string(table[static_cast<size_t>(index)]);
}

std::string two_digits(int number) {
  std::string text = number < 10 ? "0" : "";
  return text += std::to_string(number);
}

/// 1st, 2nd, 3rd, 4th, 11th, 21st.
std::string ordinal(int day) {
  const bool teen = day >= 11 && day <= 13;
  const char* ending = teen ? "th" : day % 10 == 1 ? "st" : day % 10 == 2 ? "nd" : day % 10 == 3 ? "rd" : "th";
  return std::to_string(day) + ending;
}

/// The year with four digits, or sometimes with two digits after an apostrophe.
std::string western_year(const Date& date, Choices& choices) {
  if (!choices.one_in(5)) return std::to_string(date.year);
  std::string text = "'";
  return text += two_digits(date.year % 100);
}

std::string upper_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

std::string english(const Date& date, Choices& choices) {
  const std::string full = entry(kMonths, date.month - 1), brief = entry(kShortMonths, date.month - 1);
  const std::string& month = choices.one_in(3) ? brief : full;
  const std::string year = western_year(date, choices), day = std::to_string(date.day), nth = ordinal(date.day);
  const std::string weekday = entry(kWeekdays, date.weekday), short_weekday = weekday.substr(0, 3);
  switch (choices.of(12)) {
    case 0:
      return month + " " + day + ", " + year;  // May 3, 2025
    case 1:
      return day + " " + month + " " + year;  // 3 May 2025
    case 2:
      return month + " " + nth + " " + year;  // May 3rd '25
    case 3:
      return month + " " + nth + ", " + year;  // May 3rd, 2025
    case 4:
      return "the " + nth + " of " + full + " " + year;  // the 3rd of May 2025
    case 5:
      return weekday + ", " + month + " " + day + ", " + year;  // Saturday, May 3, 2025
    case 6:
      return short_weekday + ", " + month + " " + day + ", " + year;  // Sat, May 3, 2025
    case 7:
      return weekday + ", " + day + " " + full + " " + year;  // Saturday, 3 May 2025
    case 8:
      return short_weekday + " " + day + " " + brief + " " + std::to_string(date.year);  // Sat 3 May 2025
    case 9:
      return two_digits(date.day) + "-" + upper_case(brief.substr(0, 3)) + "-" +
             std::to_string(date.year);  // 03-MAY-2025
    case 10:
      return weekday + " the " + nth + " of " + full + ", " + year;  // Saturday the 3rd of May, 2025
    default:
      return nth + " " + month + " " + year;  // 3rd May 2025
  }
}

/// 3.5.2025, 03.05.2025, 3.5.25.
std::string dotted(const Date& date, Choices& choices) {
  const bool padded = choices.one_in(2);
  const std::string year = choices.one_in(3) ? two_digits(date.year % 100) : std::to_string(date.year);
  if (padded) return two_digits(date.day) + "." + two_digits(date.month) + "." + year;
  return std::to_string(date.day) + "." + std::to_string(date.month) + "." + year;
}

std::string german(const Date& date, Choices& choices) {
  const bool abbreviated = choices.one_in(3), zero = choices.one_in(4);
  const std::string month = entry(abbreviated ? kKurzmonate : kMonate, date.month - 1);
  const std::string weekday = entry(kWochentage, date.weekday), short_weekday = weekday.substr(0, 2);
  const std::string day = (zero ? two_digits(date.day) : std::to_string(date.day)) + ". ";
  const std::string written = day + month + " " + western_year(date, choices);
  switch (choices.of(9)) {
    case 0:
      return written;  // 3. Mai 2025
    case 1:
      return weekday + ", " + written;  // Samstag, 3. Mai 2025
    case 2:
      return weekday + ", den " + written;  // Samstag, den 3. Mai 2025
    case 3:
      return "den " + written;
    case 4:
      return "am " + written;
    case 5:
      return short_weekday + "., " + written;  // Sa., 3. Mai 2025
    case 6:
      return short_weekday + ", " + dotted(date, choices);  // Sa, 03.05.2025
    case 7:
      return weekday + ", " + dotted(date, choices);
    default:
      return dotted(date, choices);
  }
}

/// 〇 … 三十一 in the form used for months and days: 十, 十二, 二十, 二十三.
std::string chinese_number(int number) {
  if (number < 10) return entry(kChineseDigits, number);
  const std::string tens = number < 20 ? "" : entry(kChineseDigits, number / 10);
  return tens + "十" + (number % 10 == 0 ? "" : entry(kChineseDigits, number % 10));
}

template <class Digits>
std::string with_digits(const std::string& number, const Digits& digits) {
  std::string text;
  for (const char digit : number) text += entry(digits, digit - '0');
  return text;
}

/// 二〇二五年五月三日, sometimes with 零 for 〇 or a two-digit year.
std::string chinese_numerals(const Date& date, Choices& choices) {
  auto digits = kChineseDigits;
  if (choices.one_in(3)) digits[0] = "零";
  const std::string year = choices.one_in(5) ? two_digits(date.year % 100) : std::to_string(date.year);
  return with_digits(year, digits) + "年" + chinese_number(date.month) + "月" + chinese_number(date.day) +
         (choices.one_in(4) ? "号" : "日");
}

/// 2025年5月3日, 2025年05月03日, 25年5月3号, ２０２５年５月３日.
std::string arabic_numerals(const Date& date, Choices& choices) {
  const bool zero = choices.one_in(4), wide = choices.one_in(8);
  const auto write = [&](const std::string& number) { return wide ? with_digits(number, kWideDigits) : number; };
  const auto part = [&](int number) { return write(zero ? two_digits(number) : std::to_string(number)); };
  const std::string year = choices.one_in(5) ? two_digits(date.year % 100) : std::to_string(date.year);
  const std::string blank = !wide && choices.one_in(6) ? " " : "";
  return write(year) + blank + "年" + blank + part(date.month) + blank + "月" + blank + part(date.day) + blank +
         (choices.one_in(4) ? "号" : "日");
}

/// 2025/5/3, 2025.05.03, 2025-5-3: the year comes first, so that day and month cannot be confused.
std::string year_first(const Date& date, Choices& choices) {
  constexpr std::array<std::string_view, 3> kMarks{"/", ".", "-"};
  const std::string mark = entry(kMarks, static_cast<int>(choices.of(3)));
  const bool zero = choices.one_in(2);
  const auto part = [&](int number) { return zero ? two_digits(number) : std::to_string(number); };
  return std::to_string(date.year) + mark + part(date.month) + mark + part(date.day);
}

std::string chinese(const Date& date, Choices& choices) {
  const std::string number = date.weekday == 6 ? "日" : chinese_number(date.weekday + 1);
  const std::string name = choices.one_in(2) ? "星期" : "周";
  const std::string weekday = name + number;
  const uint64_t shape = choices.of(10);
  if (shape == 0) return year_first(date, choices);
  const std::string written = shape % 2 == 0 ? chinese_numerals(date, choices) : arabic_numerals(date, choices);
  switch (shape / 2) {
    case 1:
      return written + weekday;  // 2025年5月3日星期六
    case 2:
      return written + "（" + weekday + "）";
    case 3:
      return weekday + "，" + written;
    default:
      return written;
  }
}

}  // namespace

std::string write_date(const Date& date, uint64_t choice) {
  Choices choices(choice);
  switch (choices.of(3)) {
    case 0:
      return english(date, choices);
    case 1:
      return german(date, choices);
    default:
      return chinese(date, choices);
  }
}

}  // namespace attend
