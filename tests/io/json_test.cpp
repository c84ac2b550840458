#include "attend/io/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

TEST(Json, ListsOfPairsAreObjectsOthersArrays) {
  const Json object{{"name", "gpt"}, {"layers", 2}, {"sizes", {1, 2.5}}, {"tied", true}, {"none", nullptr}};
  EXPECT_EQ(object.dump(), R"({"name":"gpt","layers":2,"sizes":[1,2.5],"tied":true,"none":null})");
  EXPECT_EQ((Json{1, "two", Json::array(), Json::object()}).dump(), R"([1,"two",[],{}])");
  EXPECT_EQ(Json(std::vector<float>{0.5f, 1}).dump(), "[0.5,1.0]");
  EXPECT_EQ(Json(std::map<std::string, int>{{"b", 1}, {"a", 2}}).dump(), R"({"a":2,"b":1})");
}

TEST(Json, ReadsValuesAndNamesTheTypeItGot) {
  const Json json = Json::parse(R"({"n": 3, "x": 1.5, "text": "é", "list": [1, 2], "big": 18446744073709551615})");
  EXPECT_EQ(json["n"].get<int64_t>(), 3);
  EXPECT_TRUE(json["n"].is_number_integer() && json["n"].is_number_unsigned());
  EXPECT_FALSE(json["x"].is_number_integer());
  EXPECT_EQ(json["x"].get<float>(), 1.5f);
  EXPECT_EQ(json["text"].string(), "é");
  EXPECT_EQ(json["list"].get<std::vector<int>>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(json["big"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(json["big"].dump(), "18446744073709551615");
  EXPECT_EQ(json.value("absent", 7), 7);
  EXPECT_EQ(json.value("text", ""), "é");
  EXPECT_EQ(json.find("absent"), json.end());
  expect_error<JsonError>([&] { json["text"].get<double>(); }, "expected a number in JSON, got string");
  expect_error<JsonError>([&] { json["absent"]; }, "key 'absent' is missing in JSON");
  expect_error<JsonError>([&] { json["list"][2]; }, "index 2 is out of range: the JSON array has 2 elements");
}

TEST(Json, KeepsTheOrderOfKeysAndFindsThemAmongMany) {
  Json json;
  for (int i = 0; i < 5000; ++i) json["key" + std::to_string(i * 7919 % 5000)] = i;
  EXPECT_EQ(json.size(), 5000u);
  EXPECT_EQ(json.items()[1].key, "key2919");
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(json["key" + std::to_string(i * 7919 % 5000)], i);
  EXPECT_TRUE(json.erase("key0"));
  EXPECT_FALSE(json.erase("key0"));
  EXPECT_FALSE(json.contains("key0"));
  EXPECT_EQ(json["key4999"].get<int>(), json.at("key4999").get<int>());
  EXPECT_EQ(Json::parse(R"({"a": 1, "b": 2, "a": 3})").dump(), R"({"a":3,"b":2})");
}

TEST(Json, ComparesByValue) {
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(-1), Json(UINT64_MAX));
  EXPECT_EQ(Json::parse(R"({"a": 1, "b": [2]})"), Json::parse(R"({"b": [2], "a": 1})"));
  EXPECT_NE(Json::parse(R"({"a": 1})"), Json::parse(R"({"a": 1, "b": 2})"));
  EXPECT_NE(Json("1"), Json(1));
}

TEST(Json, MembersStayWhereTheyAre) {
  Json json{{"a", "text"}};
  for (int i = 0; i < 100; ++i) json["b" + std::to_string(i)] = json["a"];
  EXPECT_EQ(json["b99"].string(), "text");
}

TEST(Json, AMemberMayBeAssignedToItsParent) {
  Json json{{"a", {{"b", {1, 2}}}}};
  json = Json(json["a"]["b"]);
  EXPECT_EQ(json.dump(), "[1,2]");
  Json object{{"a", {{"b", 1}}}};
  object = std::move(object["a"]);
  EXPECT_EQ(object.dump(), R"({"b":1})");
}

TEST(Json, RefusesDamageAndDepth) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":}", "nul", "\"\xff\"", "1 2"}) {
    EXPECT_THROW(Json::parse(text), JsonParseError) << text;
    EXPECT_TRUE(Json::parse_or_null(text).is_null()) << text;
  }
  EXPECT_EQ(Json::parse(std::string(32, '[') + std::string(32, ']')).size(), 1u);
  expect_error<JsonParseError>([] { Json::parse(std::string(33, '[') + std::string(33, ']')); },
                               "JSON nested deeper than 32");
}

TEST(Json, WritesAnyBytesAndNumbersAsNlohmannDoes) {
  EXPECT_EQ(Json("\x01\x1f\"\\\b\f\n\r\t/é\x7f").dump(), nlohmann::json("\x01\x1f\"\\\b\f\n\r\t/é\x7f").dump());
  EXPECT_EQ(Json("a\xff\xc3").dump(), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Json(std::string("\0", 1)).dump(), "\"\\u0000\"");
  EXPECT_EQ(Json(NAN).dump(), "null");
  EXPECT_EQ(Json(-std::numeric_limits<double>::infinity()).dump(), "null");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    double value = 0;
    const uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    EXPECT_EQ(Json(value).dump(), nlohmann::json(value).dump());
  }
  for (const double value : {0.0, -0.0, 1e-5, 0.1, 1e15, 1e16, 100.0, 1.0 / 3}) {
    EXPECT_EQ(Json(value).dump(), nlohmann::json(value).dump());
  }
}

TEST(Json, IndentsAsNlohmannDoes) {
  const char* text = R"({"a":[1,[],{}],"b":{"c":"d"},"e":null})";
  EXPECT_EQ(Json::parse(text).dump(2), nlohmann::ordered_json::parse(text).dump(2));
}

}  // namespace
}  // namespace attend
