// JSON schemas as grammars: every text that a grammar accepts is valid, and what is not supported is refused by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "attend/base/error.h"
#include "attend/grammar/json_schema.h"
#include "grammar/random_schemas.h"
#include "grammar/validator.h"
#include "grammar/walks.h"

namespace attend {
namespace {

using testing::random_text;

Grammar grammar_of(const char* schema) { return json_schema_grammar(Json::parse(schema)); }

std::string error_of(const std::string& schema) {
  try {
    json_schema_grammar(Json::parse(schema));
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

void expect_matches(const char* schema, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  const Grammar grammar = grammar_of(schema);
  for (const std::string& text : good) EXPECT_TRUE(grammar.matches(text)) << schema << " " << text;
  for (const std::string& text : bad) EXPECT_FALSE(grammar.matches(text)) << schema << " " << text;
}

TEST(JsonSchema, AnyObject) {
  const Grammar grammar = json_object_grammar();
  for (const char* text : {"{}", "{ }", R"({"a":1})", R"({"a": [1, -2.5e-3, true, null, {"b": "今天\n\ud83d\ude00"}]})",
                           "{\n  \"a\": 1,\n  \"b\": []\n}", R"( {"": ""})"}) {
    EXPECT_TRUE(grammar.matches(text)) << text;
  }
  for (const char* text : {"", "1", "[]", R"({"a":01})", R"({"a":1,})", R"({"a" :1})", R"({"a":  1})", R"({a:1})",
                           R"({"a":"\ud83d"})", "{\"a\":\"\n\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}",
                           R"({"a":1} )", R"({"a":.5})", R"({"a":+1})", R"({"a":1e999})"}) {
    EXPECT_FALSE(grammar.matches(text)) << text;
  }
}

TEST(JsonSchema, EveryTextOfAnyObjectParses) {
  const Grammar grammar = json_object_grammar();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = random_text(grammar, seed);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(Json::parse(text).is_object());  // not nested too deeply
  }
}

TEST(JsonSchema, PropertiesAreInOrderAndOptional) {
  expect_matches(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"type":"null"}},
                     "required":["b"]})",
      {R"({"b":true})", R"({"a":1,"b":false})", R"({"b":true,"c":null})", R"({"a": 1, "b": true, "c": null})"},
      {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,"d":1})", R"({,"b":true})", R"({"b":true,})",
       R"({"a":1"b":true})", R"({"b":1})"});
}

TEST(JsonSchema, ManyOptionalPropertiesStayLinear) {
  Json schema{{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 500; ++i) schema["properties"]["p" + std::to_string(i)] = Json{{"type", "integer"}};
  const Grammar grammar = json_schema_grammar(schema);
  EXPECT_TRUE(grammar.matches(R"({"p0":1,"p17":2,"p499":3})"));
  EXPECT_TRUE(grammar.matches("{}"));
  EXPECT_FALSE(grammar.matches(R"({"p17":1,"p0":2})"));
}

TEST(JsonSchema, AdditionalProperties) {
  expect_matches(R"({"properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
                 {"{}", R"({"ab":1})", R"({"ab":1,"x":"y"})", R"({"a":"y","abc":"z"})", R"({"今":"天"})", R"({"":""})"},
                 {R"({"ab":"x"})", R"({"x":"y","ab":1})", R"({"x":1})", R"({"\u0061b":"x"})"});
  expect_matches(R"({"type":"object","additionalProperties":true,"required":["n"]})",
                 {R"({"n":1})", R"({"n":[],"m":{}})"}, {"{}", R"({"m":1})"});
  expect_matches(R"({"type":"object"})", {"{}", R"({"a":{"b":[1]}})"}, {"[]"});
}

TEST(JsonSchema, Arrays) {
  expect_matches(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
                 {"[1]", "[1,2]", "[1, 2, 3]", "[\n  1,\n  2\n]"}, {"[]", "[1,2,3,4]", "[1,]", "[,1]", R"(["a"])"});
  expect_matches(R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})", {"[]", "[1]", R"([1,"a"])"},
                 {R"(["a"])", R"([1,"a",2])"});
  expect_matches(R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2})",
                 {"[1,null]", "[1,null,null,null]"}, {"[1]", "[1,1]"});
  expect_matches(R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"});
}

TEST(JsonSchema, ConstantsAndChoices) {
  expect_matches(R"({"enum":["red","grün",1,2.5,null,{"a":[1]}]})",
                 {R"("red")", R"("grün")", "1", "2.5", "null", R"({"a":[1]})"}, {R"("re")", R"("blue")", "2"});
  expect_matches(R"({"enum":["a",1,null],"type":["string","null"]})", {R"("a")", "null"}, {"1"});
  expect_matches(R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("xy")"});
  expect_matches(R"({"anyOf":[{"type":"string"},{"type":"integer"}]})", {R"("a")", "12"}, {"true", "1.5"});
  expect_matches(R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],
                     "oneOf":[{"properties":{"x":{"type":"integer"}},"required":["x"]},
                              {"properties":{"y":{"type":"null"}},"required":["y"]}]})",
                 {R"({"k":"a","x":1})", R"({"k":"a","y":null})"}, {R"({"k":"a"})", R"({"x":1})", R"({"k":"a","z":1})"});
  expect_matches(R"({"type":["string","null"],"maxLength":2})", {R"("ab")", "null"}, {R"("abc")", "1"});
  expect_matches("true", {"1", "[]", R"({"a":null})"}, {"x"});
  expect_matches("{}", {"1", "[]", R"("a")", " false"}, {"  1"});
}

TEST(JsonSchema, AllOf) {
  expect_matches(R"({"allOf":[{"$ref":"#/$defs/named"},{"properties":{"age":{"type":"integer","minimum":0}}}],
                     "required":["age"],"$defs":{"named":{"type":"object","properties":{"name":{"type":"string"}},
                     "required":["name"]}}})",
                 {R"({"name":"a","age":3})"}, {R"({"age":3,"name":"a"})", R"({"age":3})", R"({"name":"a"})"});
  expect_matches(R"({"allOf":[{"type":["integer","string"]},{"type":"number"}],"minimum":3})", {"3"}, {"2", "3.5"});
  EXPECT_EQ(error_of(R"({"allOf":[{"type":"string"},{"type":"null"}]})"), "schema: #: no type is allowed by all parts");
  EXPECT_EQ(error_of(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})"),
            "schema: #: merging different values of \"pattern\" is not supported");
}

TEST(JsonSchema, ReferencesMayBeRecursive) {
  expect_matches(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
                     "value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},
                     "required":["value","next"]}}})",
                 {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":null}})"},
                 {R"({"value":1})", R"({"value":1,"next":{"value":2}})"});
  expect_matches(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"});
  expect_matches(R"({"type":"array","items":{"$ref":"#","minItems":1},"maxItems":2})", {"[]"}, {"[[]]", "[[[]]]"});
  EXPECT_EQ(error_of(R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"),
            "the schema has no value of at most 30 levels");
  EXPECT_EQ(error_of(R"({"$ref":"#"})"), "the schema has no value of at most 30 levels");
  EXPECT_EQ(error_of(R"({"$ref":"#/$defs/x"})"), "schema: #: the reference '#/$defs/x' leads nowhere");
  EXPECT_EQ(error_of(R"({"$ref":"https://example.com/a"})"),
            "schema: #: the reference 'https://example.com/a' is not supported: it must begin with #/");
}

TEST(JsonSchema, Strings) {
  expect_matches(R"({"type":"string","minLength":2,"maxLength":3})",
                 {R"("ab")", R"("今天好")", R"("\n\u00e9")", R"("\ud83d\ude00a")", R"("😀😀")"},
                 {R"("a")", R"("abcd")", R"("😀")", R"("\ud83d\ude00")"});
  expect_matches(R"({"type":"string","pattern":"^[a-c]+\\d{2,3}$"})", {R"("a12")", R"("abc123")"},
                 {R"("a1")", R"("a1234")", R"("d12")", R"("xa12")"});
  expect_matches(R"({"type":"string","pattern":"b+"})", {R"("b")", R"("abc")", R"("天b\n")"}, {R"("")", R"("ac")"});
  expect_matches(R"({"type":"string","pattern":"^a*$","minLength":2,"maxLength":3})", {R"("aa")", R"("aaa")"},
                 {R"("a")", R"("aaaa")"});
  expect_matches(R"({"type":"string","pattern":"^[\"\\\\\\n]$"})", {R"("\"")", R"("\\")", R"("\n")"}, {R"(""")"});
}

TEST(JsonSchema, Formats) {
  expect_matches(R"({"format":"date"})", {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")", R"("2023-04-30")"},
                 {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("2023-1-1")"});
  expect_matches(R"({"format":"date-time"})", {R"("2024-02-29T23:59:59Z")", R"("2024-01-01T00:00:00.5+08:00")"},
                 {R"("2024-02-29")", R"("2024-02-29T24:00:00Z")", R"("2024-02-29T23:59:59")"});
  expect_matches(R"({"format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  expect_matches(R"({"format":"ipv4"})", {R"("0.0.0.0")", R"("255.249.10.1")"}, {R"("256.0.0.1")", R"("01.0.0.1")"});
  expect_matches(R"({"format":"email"})", {R"("a.b@example.org")"}, {R"("a@b")", R"("@b.c")", R"("a..b@c.d")"});
  expect_matches(R"({"format":"duration"})", {R"("P1DT2H")", R"("PT3M")", R"("P2W")"}, {R"("P")", R"("PT")"});
  EXPECT_EQ(error_of(R"({"format":"uri"})"), "schema: #: the format 'uri' is not supported");
}

TEST(JsonSchema, IntegersHaveExactLimits) {
  for (const auto& [least, most] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {-3, 12}, {7, 123}, {95, 1005}, {-1020, -17}, {-100, 100}, {999, 1000}, {1, 9}}) {
    const Grammar grammar = json_schema_grammar(Json{{"type", "integer"}, {"minimum", least}, {"maximum", most}});
    for (int64_t value = -1200; value <= 1200; ++value) {
      EXPECT_EQ(grammar.matches(std::to_string(value)), value >= least && value <= most) << value;
    }
    EXPECT_FALSE(grammar.matches("-0")) << least;
    EXPECT_FALSE(grammar.matches("07")) << least;
  }
  expect_matches(R"({"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":4})", {"2", "3"}, {"1", "4", "2.0"});
  expect_matches(R"({"type":"integer"})", {"0", "-1", "999999999999999999"}, {"1000000000000000000", "1e3"});
  EXPECT_EQ(error_of(R"({"type":"integer","minimum":3,"maximum":2})"), "schema: #: no integer is from 3 to 2");
}

TEST(JsonSchema, RefusesByName) {
  EXPECT_EQ(error_of(R"({"properties":{"a":{"uniqueItems":true}}})"),
            "schema: #/properties/a: the keyword 'uniqueItems' is not supported");
  EXPECT_EQ(error_of(R"({"type":"number","minimum":0})"),
            "schema: #: \"minimum\" is supported only for the type integer");
  EXPECT_EQ(error_of(R"({"type":"integer","multipleOf":3})"), "schema: #: \"multipleOf\" is not supported");
  EXPECT_EQ(error_of(R"({"not":{}})"), "schema: #: the keyword 'not' is not supported");
  EXPECT_EQ(error_of(R"({"properties":{"a":false}})"), "schema: #/properties/a: the schema false allows no value");
  EXPECT_EQ(error_of("3"), "schema: #: expected an object or a boolean, got number");
  EXPECT_EQ(error_of(R"({"type":"text"})"), "schema: #: unknown type 'text'");
  EXPECT_EQ(error_of(R"({"type":["string",1]})"), "schema: #: unknown type '1'");
  EXPECT_EQ(error_of(R"({"enum":["a"],"minLength":1})"), "schema: #: \"enum\" beside \"minLength\" is not supported");
  EXPECT_EQ(error_of(R"({"type":"object","required":["x"],"additionalProperties":false})"),
            "schema: #: the required property 'x' is not allowed");
  EXPECT_EQ(error_of(R"({"title":"t","description":"d","default":1,"examples":[1],"$schema":"s","$id":"i"})"), "");
}

TEST(JsonSchema, RefusesWhatExplodes) {
  EXPECT_NE(error_of(R"({"type":"string","maxLength":1000000})").find("too large"), std::string::npos);
  EXPECT_NE(error_of(R"({"type":"array","maxItems":100000000})").find("too large"), std::string::npos);
  EXPECT_NE(error_of(R"({"pattern":"(a{1000}){1000}"})").find("more than"), std::string::npos);
  EXPECT_NE(error_of(R"({"pattern":"^(a|b)*a(a|b){40}$"})").find("more than"), std::string::npos);
  std::string nested = "true";
  for (int i = 0; i < 12; ++i) nested = R"({"items":)" + nested + "}";
  EXPECT_EQ(error_of(nested), "");
}

TEST(JsonSchema, EveryTextOfARandomSchemaIsValid) {
  int compiled = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    testing::Draws draws(seed);
    const Json schema = testing::random_schema(draws);
    std::optional<Grammar> grammar;
    try {
      grammar = json_schema_grammar(schema);
    } catch (const FormatError&) {
      continue;
    }
    ++compiled;
    for (uint64_t walk = 0; walk < 4; ++walk) {
      const std::string text = random_text(*grammar, seed * 100 + walk, 60);
      ASSERT_TRUE(nlohmann::json::accept(text)) << schema << " " << text;
      EXPECT_TRUE(testing::Validator(schema).accepts(Json::parse(text))) << schema << " " << text;
      EXPECT_TRUE(grammar->matches(text));
    }
  }
  EXPECT_GT(compiled, 100);
}

TEST(ResponseFormat, ReadsOpenAisObject) {
  const auto grammar = [](const char* text) { return response_grammar(Json::parse(text)); };
  EXPECT_FALSE(grammar("null"));
  EXPECT_FALSE(grammar(R"({"type":"text"})"));
  EXPECT_TRUE(grammar(R"({"type":"json_object"})")->matches("{}"));
  const auto named =
      grammar(R"({"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"integer"}}})");
  EXPECT_TRUE(named->matches("12"));
  EXPECT_FALSE(named->matches("{}"));
  EXPECT_THROW(grammar(R"({"type":"xml"})"), FormatError);
  EXPECT_THROW(grammar(R"({"type":"json_schema"})"), FormatError);
  EXPECT_THROW(grammar(R"({"type":"json_object","x":1})"), FormatError);
  EXPECT_THROW(grammar("3"), FormatError);
}

}  // namespace
}  // namespace attend
