#include "attend/data/dates.h"

#include <chrono>
#include <map>
#include <regex>
#include <set>

#include "attend/text/utf8.h"
#include "data/date_shapes.h"
#include "testing/gradients.h"

namespace attend {
namespace {

constexpr Date kSaturday{.year = 2025, .month = 5, .day = 3, .weekday = 5};

std::chrono::sys_days day_of(const std::string& iso) {
  return std::chrono::year{std::stoi(iso.substr(0, 4))} / std::stoi(iso.substr(5, 2)) / std::stoi(iso.substr(8, 2));
}

TEST(Dates, EveryWrittenForm) {
  std::set<std::string> texts;
  for (uint64_t choice = 0; choice < 100000; ++choice)
    texts.insert(write_date(kSaturday, choice * 0x9E3779B97F4A7C15u));
  for (const char* text : {"Samstag, 3. Mai 2025",
                           "二〇二五年五月三日",
                           "May 3rd '25",
                           "3 May 2025",
                           "Sat, May 3, 2025",
                           "3.5.2025",
                           "03.05.25",
                           "den 3. Mai 2025",
                           "Samstag, den 03. Mai '25",
                           "2025年5月3日星期六",
                           "2025年05月03日（周六）",
                           "周六，二零二五年五月三号",
                           "２０２５年５月３日",
                           "25年5月3日",
                           "2025 年 5 月 3 日",
                           "2025/5/3",
                           "2025.05.03",
                           "the 3rd of May 2025",
                           "03-MAY-2025",
                           "Sa., 3. Mai 2025"}) {
    EXPECT_TRUE(texts.contains(text)) << text;
  }
  EXPECT_GT(texts.size(), 150u);
}

TEST(Dates, NumbersInWords) {
  const Date last{.year = 1990, .month = 12, .day = 31, .weekday = 0},
      tenth{.year = 2000, .month = 10, .day = 20, .weekday = 4};
  std::set<std::string> texts;
  for (uint64_t choice = 0; choice < 50000; ++choice) {
    texts.insert(write_date(last, choice * 0x9E3779B97F4A7C15u));
    texts.insert(write_date(tenth, choice * 0x9E3779B97F4A7C15u));
  }
  for (const char* text : {"一九九〇年十二月三十一日", "二〇〇〇年十月二十日", "December 31st, 1990",
                           "20th October 2000", "20. Okt. 2000", "Fr, 20.10.00", "零零年十月二十日星期五"}) {
    EXPECT_TRUE(texts.contains(text)) << text;
  }
}

TEST(Dates, WeekdaysAreRight) {
  static const std::map<std::string, unsigned> weekdays{
      {"Monday", 1}, {"Sunday", 7}, {"Montag", 1}, {"Donnerstag", 4}, {"Samstag", 6}, {"星期一", 1},
      {"星期日", 7}, {"周三", 3},   {"Friday", 5}, {"Mittwoch", 3},   {"周六", 6}};
  std::map<std::string, int> seen;
  for (uint64_t i = 0; i < 20000; ++i) {
    const DatePair pair = date_pair(1, i);
    for (const auto& [name, number] : weekdays) {
      if (pair.text.find(name) == std::string::npos) continue;
      ++seen[name];
      ASSERT_EQ(std::chrono::weekday(day_of(pair.iso)).iso_encoding(), number) << pair.text << " " << pair.iso;
    }
  }
  EXPECT_EQ(seen.size(), weekdays.size());
}

TEST(Dates, AFunctionOfSeedAndIndex) {
  EXPECT_EQ(date_pair(3, 8).text, date_pair(3, 8).text);
  int equal = 0;
  for (uint64_t i = 0; i < 100; ++i) equal += date_pair(3, i).iso == date_pair(4, i).iso;
  EXPECT_LE(equal, 2);
}

TEST(Dates, HeldOutDatesAreNeverTrainedOn) {
  std::set<std::string> training, held_out, texts;
  for (uint64_t i = 0; i < 30000; ++i) {
    const DatePair pair = date_pair(i % 3, i);
    training.insert(pair.iso);
    texts.insert(pair.text);
  }
  for (uint64_t i = 0; i < 2000; ++i) {
    const DatePair pair = date_pair(7, i, DatePart::held_out);
    held_out.insert(pair.iso);
    EXPECT_FALSE(training.contains(pair.iso)) << pair.iso;
    EXPECT_FALSE(texts.contains(pair.text)) << pair.text;
    EXPECT_TRUE(is_held_out(day_of(pair.iso).time_since_epoch().count()));
  }
  EXPECT_GT(training.size(), 15000u);
  EXPECT_GT(held_out.size(), 1400u);
}

TEST(Dates, ValidDatesOfTheWholeCentury) {
  const std::regex pattern("(19[5-9]|20[0-4])[0-9]-[0-9]{2}-[0-9]{2}");
  std::set<std::string> years;
  int thirty_first = 0, leap = 0;
  for (uint64_t i = 0; i < 30000; ++i) {
    const DatePair pair = date_pair(2, i);
    ASSERT_TRUE(std::regex_match(pair.iso, pattern)) << pair.iso;
    ASSERT_TRUE(is_utf8(pair.text));
    const std::chrono::year_month_day date(day_of(pair.iso));
    ASSERT_TRUE(date.ok());
    years.insert(pair.iso.substr(0, 4));
    thirty_first += pair.iso.ends_with("-31");
    leap += pair.iso.ends_with("-02-29");
  }
  EXPECT_EQ(years.size(), 100u);
  EXPECT_NEAR(thirty_first, 30000 * 7 / 365, 150);
  EXPECT_GT(leap, 3);
}

/// An ambiguous text could not be learned.
TEST(Dates, ATextMeansOneDate) {
  std::map<std::string, std::string> meaning;
  for (uint64_t i = 0; i < 200000; ++i) {
    const DatePair pair = date_pair(11, i);
    const auto [found, added] = meaning.emplace(pair.text, pair.iso);
    ASSERT_EQ(found->second, pair.iso) << pair.text;
  }
}

}  // namespace
}  // namespace attend
