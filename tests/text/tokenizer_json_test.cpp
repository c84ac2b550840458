// Each component of tokenizer.json behaves as in Hugging Face tokenizers.
#include "text/tokenizers/json_tokenizer.h"

#include "testing/gradients.h"

namespace attend::text {
namespace {

using Ids = std::vector<int32_t>;
using Words = std::vector<std::string>;
using testing::expect_error;

Words pieces(const Json& json, std::string_view text, bool at_start = true) {
  Words words;
  TextWork work(text.size());
  make_pre_tokenizer(json, false)->split({text, at_start}, work, [&](Piece piece) { words.emplace_back(piece.text); });
  return words;
}
Json split(const Json& pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}
std::string decoded(const Json& json, Words tokens) {
  TextWork work(1000);
  make_decoder(json)(tokens, work);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::string normalized_by(const Json& json, std::string_view text) {
  TextWork work(text.size());
  return make_normalizer(json)(text, work);
}

TEST(Normalizer, EachKind) {
  const auto kind = [](const char* type) { return Json{{"type", type}}; };
  EXPECT_EQ(normalized_by(kind("NFC"), "e\u0301 ﬁ"), "é ﬁ");
  EXPECT_EQ(normalized_by(kind("NFD"), "é"), "e\u0301");
  EXPECT_EQ(normalized_by(kind("NFKC"), "ﬁ ２"), "fi 2");
  EXPECT_EQ(normalized_by(kind("NFKD"), "ﬁ é"), "fi e\u0301");
  EXPECT_EQ(normalized_by(kind("Lowercase"), "ÀΣ İ"), "àσ i\u0307");
  EXPECT_EQ(normalized_by(kind("StripAccents"), "e\u0301é"), "eé") << "only marks that stand apart";
  EXPECT_EQ(normalized_by(kind("Strip"), "\u3000 a b\n"), "a b");
  EXPECT_EQ(normalized_by({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a "), " a");
  EXPECT_EQ(normalized_by({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " a "), "a ");
  EXPECT_EQ(normalized_by(kind("Strip"), " \t"), "");
  EXPECT_EQ(normalized_by(kind("Nmt"), "a\u200bb\x01\tc"), "a b c");
  EXPECT_EQ(normalized_by({{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "x"}}, "aabb"), "axb");
  EXPECT_EQ(normalized_by({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "$1"}}, "a   b c"),
            "a$1b c");
  EXPECT_EQ(normalized_by({{"type", "Prepend"}, {"prepend", "▁"}}, "a"), "▁a");
  EXPECT_EQ(normalized_by({{"type", "Prepend"}, {"prepend", "▁"}}, ""), "");
  EXPECT_EQ(normalized_by(kind("ByteLevel"), "é\n"), "Ã©Ċ");
  EXPECT_EQ(normalized_by(
                {{"type", "Sequence"}, {"normalizers", {kind("NFD"), kind("StripAccents"), kind("Lowercase")}}}, "ÉA"),
            "ea");
}

TEST(Normalizer, Bert) {
  Json json{{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true}, {"lowercase", true}};
  EXPECT_EQ(normalized_by(json, "Ünï\u200b\tX今天"), "uni x 今  天 ");
  json["strip_accents"] = false;
  EXPECT_EQ(normalized_by(json, "Ü"), "ü");
  json["lowercase"] = false;
  json["strip_accents"] = nullptr;
  EXPECT_EQ(normalized_by(json, "Ü"), "Ü") << "accents go with the case, where nothing is said";
  json["clean_text"] = json["handle_chinese_chars"] = false;
  EXPECT_EQ(normalized_by(json, "\t今"), "\t今");
}

TEST(PreTokenizer, SplitBehaviors) {
  const Json dash{{"String", "-"}};
  const std::string text = "the-final--countdown";
  EXPECT_EQ(pieces(split(dash, "Removed"), text), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(pieces(split(dash, "Isolated"), text), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(pieces(split(dash, "MergedWithPrevious"), text), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(pieces(split(dash, "MergedWithNext"), text), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(pieces(split(dash, "Contiguous"), text), (Words{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(pieces(split({{"Regex", R"(\w+)"}}, "Removed", true), "a b!"), (Words{"a", "b"}));
  EXPECT_EQ(pieces(split({{"Regex", R"(\d{1,3}(?=(\d{3})*\b))"}}, "Isolated"), "12345"), (Words{"12", "345"}));
}

TEST(PreTokenizer, EachKind) {
  const auto kind = [](const char* type) { return Json{{"type", type}}; };
  EXPECT_EQ(pieces(kind("Whitespace"), "Hey, it's 3.5!  "), (Words{"Hey", ",", "it", "'", "s", "3", ".", "5", "!"}));
  EXPECT_EQ(pieces(kind("WhitespaceSplit"), " a,b\u3000c "), (Words{"a,b", "c"}));
  EXPECT_EQ(pieces(kind("BertPreTokenizer"), "a+b 你好。x"), (Words{"a", "+", "b", "你好", "。", "x"}));
  EXPECT_EQ(pieces(kind("Punctuation"), "a+—b"), (Words{"a", "+", "—", "b"}));
  EXPECT_EQ(pieces({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a..b"), (Words{"a", "..", "b"}));
  EXPECT_EQ(pieces({{"type", "Digits"}, {"individual_digits", true}}, "a12"), (Words{"a", "1", "2"}));
  EXPECT_EQ(pieces({{"type", "Digits"}, {"individual_digits", false}}, "a12b"), (Words{"a", "12", "b"}));
  EXPECT_EQ(pieces({{"type", "CharDelimiterSplit"}, {"delimiter", "_"}}, "a_b"), (Words{"a", "b"}));
  EXPECT_EQ(pieces({{"type", "ByteLevel"}, {"add_prefix_space", true}}, "a é"), (Words{"Ġa", "ĠÃ©"}));
  EXPECT_EQ(pieces({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}, "a b"), (Words{"aĠb"}));
  EXPECT_EQ(pieces({{"type", "Sequence"}, {"pretokenizers", {kind("WhitespaceSplit"), kind("Punctuation")}}}, "a, b"),
            (Words{"a", ",", "b"}));
}

TEST(PreTokenizer, Metaspace) {
  Json json{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  EXPECT_EQ(pieces(json, "a  b"), (Words{"▁a", "▁", "▁b"}));
  EXPECT_EQ(pieces(json, " a"), (Words{"▁a"}));
  json["split"] = false;
  EXPECT_EQ(pieces(json, "a b"), (Words{"▁a▁b"}));
  json["prepend_scheme"] = "first";
  EXPECT_EQ(pieces(json, "a", true), (Words{"▁a"}));
  EXPECT_EQ(pieces(json, "a", false), (Words{"a"}));
  json["prepend_scheme"] = "never";
  EXPECT_EQ(pieces(json, "a"), (Words{"a"}));
  json.erase("prepend_scheme");
  json["add_prefix_space"] = true;
  EXPECT_EQ(pieces(json, "a", false), (Words{"▁a"})) << "older files say it so";
}

TEST(Decoder, EachKind) {
  const auto kind = [](const char* type) { return Json{{"type", type}}; };
  EXPECT_EQ(decoded(nullptr, {"a", "b"}), "a b");
  EXPECT_EQ(decoded(kind("ByteLevel"), {"ä½", "ł", "Ġa", "<x y>"}), "你 a<x y>");
  EXPECT_EQ(decoded(kind("ByteLevel"), {"ä½"}), "\ufffd");
  EXPECT_EQ(decoded({{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}, {"do", "n't", "!", "a", "##b"}),
            "don't! ab");
  EXPECT_EQ(decoded({{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}, {"a", "."}), "a .");
  EXPECT_EQ(decoded(kind("Metaspace"), {"▁a", "▁b"}), "a b");
  EXPECT_EQ(decoded({{"type", "Metaspace"}, {"prepend_scheme", "never"}}, {"▁a"}), " a");
  EXPECT_EQ(decoded(kind("ByteFallback"), {"<0xE4>", "<0xBD>", "<0xA0>", "x", "<0xE4>", "<0xBD>"}), "你x\ufffd\ufffd");
  EXPECT_EQ(decoded({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}}, {"  a  "}), " a ");
  EXPECT_EQ(decoded({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}}, {"▁a▁"}), " a ");
  EXPECT_EQ(decoded({{"type", "BPEDecoder"}, {"suffix", "</w>"}}, {"ab</w>", "c", "d</w>"}), "ab cd");
  const Json llama{{"type", "Sequence"},
                   {"decoders",
                    {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                     kind("ByteFallback"),
                     kind("Fuse"),
                     {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  EXPECT_EQ(decoded(llama, {"▁a", "<0x0A>", "▁b"}), "a\n b");
}

TEST(Template, EachKind) {
  EXPECT_EQ(make_template(nullptr), (Ids{kNone}));
  EXPECT_EQ(make_template({{"type", "ByteLevel"}}), (Ids{kNone}));
  const Json bert{{"type", "BertProcessing"}, {"sep", {"[SEP]", 102}}, {"cls", {"[CLS]", 101}}};
  EXPECT_EQ(make_template(bert), (Ids{101, kNone, 102}));
  Json roberta = bert;
  roberta["type"] = "RobertaProcessing";
  EXPECT_EQ(make_template({{"type", "Sequence"}, {"processors", {bert, roberta}}}), (Ids{101, 101, kNone, 102, 102}));
  const Json around{{"type", "TemplateProcessing"},
                    {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                            {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
                    {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", Json::array({1, 7})}}}}}};
  EXPECT_EQ(make_template(around), (Ids{1, 7, kNone}));
  EXPECT_EQ(fill({1, kNone, 2}, Ids{5, 6}), (Ids{1, 5, 6, 2}));
}

TEST(Models, WordPieceWordLevelAndUnigram) {
  const auto encode = [](const Json& json, std::string_view piece) {
    Ids ids;
    make_model(json, false)->encode(piece, ids);
    return ids;
  };
  Json model{{"type", "WordPiece"},
             {"unk_token", "[UNK]"},
             {"max_input_chars_per_word", 8},
             {"vocab", {{"[UNK]", 0}, {"un", 1}, {"##aff", 2}, {"##able", 3}, {"##a", 4}, {"今", 5}}}};
  EXPECT_EQ(encode(model, "unaff"), (Ids{1, 2}));
  EXPECT_EQ(encode(model, "unaffx"), (Ids{0})) << "unknown as a whole";
  EXPECT_EQ(encode(model, "unaffaff"), (Ids{1, 2, 2}));
  EXPECT_EQ(encode(model, "unaffaffa"), (Ids{0})) << "longer than 8 characters";
  EXPECT_EQ(encode(model, "今"), (Ids{5}));

  Json words{{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", {{"a", 0}, {"?", 1}}}};
  EXPECT_EQ(encode(words, "b"), (Ids{1}));
  words["unk_token"] = "none";
  expect_error<FormatError>([&] { encode(words, "b"); }, "'b' is not in the vocabulary, which has no unknown token");

  const auto entry = [](const char* token, double score) { return Json::array({token, score}); };
  Json unigram{{"type", "Unigram"},
               {"unk_id", 0},
               {"vocab", Json::array({entry("<unk>", 0), entry("a", -1), entry("b", -2), entry("ab", -2.5),
                                      entry("abc", -9), entry("<0xC3>", -5), entry("<0xA9>", -5)})}};
  EXPECT_EQ(encode(unigram, "abab"), (Ids{3, 3}));
  EXPECT_EQ(encode(unigram, "axyéb"), (Ids{1, 0, 2})) << "adjacent unknown characters are one token";
  unigram["byte_fallback"] = true;
  EXPECT_EQ(encode(unigram, "é"), (Ids{5, 6}));
  unigram["unk_id"] = nullptr;
  expect_error<FormatError>([&] { encode(unigram, "x"); }, "a character is not in the vocabulary, and unk_id is null");
}

/// A vocabulary of single letters and the given added tokens.
Json letters(const Json& added) {
  Json vocabulary;
  for (char c = 'a'; c <= 'z'; ++c) vocabulary[std::string(1, c)] = c - 'a';
  vocabulary[" "] = 26;
  return {{"added_tokens", added},
          {"normalizer", {{"type", "Lowercase"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

TEST(AddedTokens, AreFoundBeforeTheModelSeesThem) {
  const auto encode = [](const Json& added, std::string_view text) {
    return JsonTokenizer(letters(Json::array({added})).dump(), {}).encode(text, false);
  };
  Json token{{"id", 30}, {"content", "<X>"}, {"special", true}, {"normalized", false}};
  EXPECT_EQ(encode(token, "a <X> b"), (Ids{0, 26, 30, 26, 1}));
  EXPECT_EQ(encode(token, "<x>"), (Ids{23})) << "not normalised: only as written; < and > are not in this vocabulary";
  token["lstrip"] = token["rstrip"] = true;
  EXPECT_EQ(encode(token, "a <X>  b"), (Ids{0, 30, 1}));
  token = {{"id", 30}, {"content", "CAT"}, {"single_word", true}};
  EXPECT_EQ(encode(token, "cat"), (Ids{30})) << "found in the normalised text";
  EXPECT_EQ(encode(token, "cats"), (Ids{2, 0, 19, 18}));
  EXPECT_EQ(encode(token, "a,cat"), (Ids{0, 30}));
}

TEST(AddedTokens, TheLongestWins) {
  const Json added = Json::array(
      {{{"id", 30}, {"content", "<a"}, {"special", true}}, {{"id", 31}, {"content", "<a>"}, {"special", true}}});
  const JsonTokenizer tokenizer(letters(added).dump(), {});
  EXPECT_EQ(tokenizer.encode("<a><a", false), (Ids{31, 30}));
  EXPECT_EQ(tokenizer.size(), 32);
  EXPECT_EQ(tokenizer.decode(Ids{0, 31, 1}, false), "a b");
  EXPECT_EQ(tokenizer.decode(Ids{0, 31, 1}, true), "a <a> b");
  EXPECT_EQ(tokenizer.decode(Ids{0, -1, 32, 1'000'000}, true), "a") << "ids out of range are left out";
  EXPECT_EQ(tokenizer.token(27), "") << "an id without a token";
  expect_error<ShapeError>([&] { tokenizer.token(32); }, "tokenizer: expected an id from 0 to 31, got 32");
  EXPECT_EQ(tokenizer.find("<a>"), 31);
  EXPECT_EQ(tokenizer.find("<b>"), std::nullopt);
  expect_error<FormatError>([&] { tokenizer.encode("a\xff", false); },
                            "text: expected UTF-8, got an invalid sequence at byte 1");
}

}  // namespace
}  // namespace attend::text
