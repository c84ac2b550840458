// LibreTranslate's API: forms, HTML, and errors in its shape.
#include <gtest/gtest.h>

#include "attend/base/error.h"
#include "serve/html_text.h"
#include "serve/http/form.h"
#include "serve/model_api_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kForm = "Content-Type: application/x-www-form-urlencoded\r\n";
constexpr const char* kMultipart = "Content-Type: multipart/form-data; boundary=\"a b\"\r\n";

std::string part(const std::string& name, const std::string& value, const std::string& more = {}) {
  return "--a b\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value + "\r\n";
}

std::string error_of(const std::string& answer, int status = 400) {
  EXPECT_EQ(status_of(answer), status) << answer.substr(0, 300);
  const Json body = Json::parse(body_of(answer), nullptr, false);
  if (!body.is_object() || !body["error"].is_string()) return answer;
  return body["error"].get<std::string>();
}

TEST(TranslateApi, ErrorsAreTexts) {
  const ServedModels served;
  const auto error = [&](const Json& body) { return error_of(served.request("POST /translate", body.dump())); };
  EXPECT_EQ(error({{"source", "en"}, {"target", "de"}}), "Invalid request: missing q parameter");
  EXPECT_EQ(error({{"q", "a"}, {"target", "de"}}), "Invalid request: missing source parameter");
  EXPECT_EQ(error({{"q", "a"}, {"source", "en"}}), "Invalid request: missing target parameter");
  EXPECT_EQ(error({{"q", "a"}, {"source", "fr"}, {"target", "de"}}), "no model translates from 'fr' to 'de'");
  EXPECT_EQ(error({{"q", "a"}, {"source", "en"}, {"target", "de"}, {"format", "xml"}}),
            "'format' must be \"text\" or \"html\"");
  EXPECT_EQ(error({{"q", "a"}, {"source", "en"}, {"target", "de"}, {"more", 1}}), "'more' is not supported");
  EXPECT_EQ(error_of(served.request("POST /languages"), 405), "/languages takes GET, not 'POST'");
  EXPECT_EQ(error_of(served.request("PUT /translate", "{}"), 405), "only GET and POST are answered");
  EXPECT_EQ(error_of(served.request("POST /translate", "nonsense")), "expected a JSON object in the request's body");
  EXPECT_EQ(served.post("/translate", {{"q", "a"}, {"model", "en-de"}})["status"], 200)
      << "a model names its languages";
}

TEST(TranslateApi, TakesTheKeyAsAField) {
  const ServedModels served({}, {.api_keys = {"secret-1"}});
  const Json fields{{"q", "a"}, {"source", "en"}, {"target", "de"}};
  const auto status = [&](Json own, const std::string& headers = "") {
    own.update(fields);
    return status_of(served.request("POST /translate", own.dump(), headers));
  };
  EXPECT_EQ(status({{"api_key", "secret-1"}}), 200);
  EXPECT_EQ(status({{"api_key", "secret-1"}}, "Authorization: Bearer secret-2\r\n"), 401) << "the header counts";
  EXPECT_EQ(status({}, "Authorization: Bearer secret-1\r\n"), 200);
  for (const Json& wrong : {Json("secret-2"), Json(""), Json(7), Json("Bearer secret-1")}) {
    EXPECT_EQ(status({{"api_key", wrong}}), 401) << wrong;
  }
  EXPECT_EQ(error_of(served.request("POST /translate", fields.dump()), 401),
            "expected a valid API key in the header 'Authorization: Bearer KEY', or in the field 'api_key'");
  EXPECT_EQ(status_of(served.request("POST /translate", "nonsense")), 401);
  EXPECT_EQ(status_of(served.request("POST /translate", "q=a&source=en&target=de&api_key=secret-1", kForm)), 200);
  EXPECT_EQ(status_of(served.request("GET /translate?api_key=secret-1")), 401);
  EXPECT_EQ(status_of(served.request("POST /tokenize", R"({"text":"a","api_key":"secret-1"})")), 401);
}

TEST(TranslateApi, ReadsForms) {
  const ServedModels served;
  const auto form = [&](const std::string& body) { return served.request("POST /translate", body, kForm); };
  const Json expected = served.post("/translate", {{"q", {"a", "b c"}}, {"source", "en"}, {"target", "de"}});
  EXPECT_EQ(Json::parse(body_of(form("q=a&source=en&q=b+c&target=de")))["translatedText"], expected["translatedText"]);
  EXPECT_EQ(status_of(form("q=12&source=en&target=de&api_key=34")), 200);
  EXPECT_EQ(error_of(form("q=a&source=en&source=de&target=de")), "'source' is given twice");
  EXPECT_EQ(error_of(form("q=%zz&source=en&target=de")), "the form: expected two hexadecimal digits after %");
  EXPECT_EQ(error_of(form("q=a%2&source=en&target=de")), "the form: expected two hexadecimal digits after %");
  EXPECT_EQ(error_of(form("q=%ff&source=en&target=de")), "'q' is not valid UTF-8");
}

TEST(TranslateApi, ReadsMultipartForms) {
  const ServedModels served;
  const auto form = [&](const std::string& body) { return served.request("POST /translate", body, kMultipart); };
  const std::string languages = part("source", "en") + part("target", "de");
  const Json expected =
      served.post("/translate", {{"q", "a\r\ncat"}, {"source", "en"}, {"target", "de"}, {"alternatives", 1}});
  const std::string answer = form(part("q", "a\r\ncat") + languages + part("alternatives", "1") + "--a b--\r\n");
  EXPECT_EQ(status_of(answer), 200) << answer;
  EXPECT_EQ(Json::parse(body_of(answer))["translatedText"], expected["translatedText"]);
  EXPECT_EQ(Json::parse(body_of(answer))["alternatives"], expected["alternatives"]);
  EXPECT_EQ(error_of(form(part("q", "a", "; filename=\"a.txt\"") + languages + "--a b--\r\n")),
            "the form: files are not supported, only text fields");
  EXPECT_EQ(error_of(form(part("q", "a") + languages)), "the form: it has no end");
  EXPECT_EQ(error_of(form("q=a")), "the form: the boundary is not in the body");
}

TEST(Form, ReadsParts) {
  const auto fields = read_multipart(
      "before\r\n--x \r\ncontent-disposition: form-data; a=b; name=q\r\nContent-Type: text/plain\r\n\r\n\r\n--y\r\n\r\n"
      "--x\r\nContent-Disposition: form-data; name=\"a\\\"b\"\r\n\r\n\r\n--x--behind",
      "multipart/form-data; charset=utf-8; Boundary=x");
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "q");
  EXPECT_EQ(fields[0].value, "\r\n--y\r\n");
  EXPECT_EQ(fields[1].name, "a\"b");
  EXPECT_EQ(fields[1].value, "");
  const auto fails = [](const std::string& body, const std::string& message, const char* type = "a; boundary=x") {
    expect_error<FormatError>([&] { read_multipart(body, type); }, "the form: " + message);
  };
  fails("--x\r\n\r\n", "it has no end");
  fails("--x\r\n--x--", "a part has no head");
  fails("--x\r\n\r\na\r\n--x--", "a part has no head");
  fails("--x\r\nX: y\r\n\r\na\r\n--x--", "a part has no name");
  fails("--x\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\na\r\n--x--",
        "parts must not have a Content-Transfer-Encoding");
  fails("--x--", "Content-Type has no boundary", "multipart/form-data");
  fails("--", "the boundary is not in the body");
  EXPECT_TRUE(read_multipart("--x--", "a; boundary=x").empty());
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "a=b&";
  expect_error<FormatError>([&] { read_form_body(many); }, "the form: it has more than 1024 fields");
}

/// The texts of HTML as "[text]" between its markup.
std::string marked(std::string_view html) {
  std::string result;
  for (const HtmlPiece& piece : html_pieces(html)) {
    result += piece.markup;
    if (!piece.text.empty()) result += "[" + piece.text + "]";
  }
  return result;
}

TEST(HtmlText, SeparatesTextFromMarkup) {
  EXPECT_EQ(marked("plain"), "[plain]");
  EXPECT_EQ(marked(""), "");
  EXPECT_EQ(marked("<p class=\"a > b\" title='c > d' e = \"f>\">one <b>two</b>\n three  four </p>\n"),
            "<p class=\"a > b\" title='c > d' e = \"f>\">[one] <b>[two]</b>\n [three four] </p>\n");
  EXPECT_EQ(marked("<script>if (a < b) say('</b>');</SCRIPT >x<style>p > a {}</style>y"),
            "<script>if (a < b) say('</b>');</SCRIPT >[x]<style>p > a {}</style>[y]");
  EXPECT_EQ(marked("a<!-- <b>no</b> -->b<!doctype html>c<?xml ?>d"),
            "[a]<!-- <b>no</b> -->[b]<!doctype html>[c]<?xml ?>[d]");
  EXPECT_EQ(marked("1 < 2 & 3 <> 4 </ x>5"), "[1 < 2 & 3 <> 4] </ x>[5]");
  EXPECT_EQ(marked("<pre>a  b\n  c\n</pre>d\ne"), "<pre>[a  b]\n  [c]\n</pre>[d e]");
  for (const char* open : {"<p", "<p a=\"", "<!-- a", "<script>a", "</p", "<", "</", "<!", "<!-", "<plaintext>a</p>"}) {
    const auto pieces = html_pieces(open);
    std::string all;
    for (const HtmlPiece& piece : pieces) all += piece.markup + piece.text;
    EXPECT_EQ(all, open);
  }
  EXPECT_EQ(marked("<p don't>a</p>"), "<p don't>[a]</p>") << "a quote within a name";
}

TEST(HtmlText, DecodesAndEncodesEntities) {
  EXPECT_EQ(marked("&lt;b&gt; &amp;amp; &auml;&szlig;&yuml; &#228;&#xE4; &#x1F600; &hellip;&apos;"),
            "[<b> &amp; äßÿ ää 😀 …']");
  EXPECT_EQ(marked("&unknown; & &; &#; &#x; &#xZ; &amp"), "[&unknown; & &; &#; &#x; &#xZ; &amp]");
  EXPECT_EQ(marked("&#0;&#xD800;&#x110000;&#99999999;"), "[����]");
  EXPECT_EQ(html_escaped("<a & \"b\">"), "&lt;a &amp; \"b\"&gt;");
}

TEST(HtmlText, LongInputsTakeLinearTime) {
  for (const char* unit : {"<", "<!--", "<a ", "<script>", "</", "&", "<a b='", "&#x", "<pre>\n", "<a  \"", " "}) {
    std::string html;
    while (html.size() < (1 << 20)) html += unit;
    std::string all;
    for (const HtmlPiece& piece : html_pieces(html)) all += piece.markup;
    EXPECT_LE(all.size(), html.size());
  }
}

TEST(TranslateApi, TranslatesHtml) {
  const ServedModels served;
  const auto translated = [&](const std::string& q, const char* format) {
    const Json answer = served.post("/translate", {{"q", q}, {"source", "en"}, {"target", "de"}, {"format", format}});
    EXPECT_EQ(answer["status"], 200) << answer;
    return answer["translatedText"].get<std::string>();
  };
  EXPECT_EQ(translated("<p id='x'>a  cat</p> <br> <b>a &amp; b</b><script>a</script>", "html"),
            "<p id='x'>" + html_escaped(translated("a cat", "text")) + "</p> <br> <b>" +
                html_escaped(translated("a & b", "text")) + "</b><script>a</script>");
  EXPECT_EQ(translated("<br>", "html"), "<br>");
  const Json many = served.post(
      "/translate",
      {{"q", {"<i>a</i>", "b"}}, {"source", "en"}, {"target", "de"}, {"format", "html"}, {"alternatives", 1}});
  EXPECT_EQ(many["translatedText"].size(), 2u) << many;
  EXPECT_TRUE(many["alternatives"][0][0].get<std::string>().starts_with("<i>")) << many;
}

}  // namespace
}  // namespace attend::testing
