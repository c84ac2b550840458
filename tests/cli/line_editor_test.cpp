// The line editor and its keys, without a terminal.
#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include <chrono>

namespace attend::cli {
namespace {

using Outcome = LineEditor::Outcome;

constexpr const char *kUp = "\x1b[A", *kDown = "\x1b[B", *kRight = "\x1b[C", *kLeft = "\x1b[D";
constexpr const char *kPasteBegin = "\x1b[200~", *kPasteEnd = "\x1b[201~";

/// A user who types at the editor.
class Typing {
 public:
  /// Returns the last outcome that is not `none`.
  Outcome type(std::string_view bytes) {
    Outcome last = Outcome::none;
    keys.feed(bytes);
    while (const auto key = keys.next()) {
      const Outcome outcome = editor.press(*key);
      if (outcome != Outcome::none) last = outcome;
    }
    return last;
  }
  void paste(const std::string& text) { type(kPasteBegin + text + kPasteEnd); }
  /// The text, with the cursor as |.
  std::string line(std::string_view bytes = "") {
    type(bytes);
    return editor.text().substr(0, editor.cursor()) + "|" + editor.text().substr(editor.cursor());
  }
  Turn enter(std::string_view bytes = "") {
    EXPECT_EQ(type(std::string(bytes) + "\r"), Outcome::entered) << editor.text();
    return editor.take();
  }

  KeyDecoder keys;
  LineEditor editor;
};

TEST(LineEditor, MovesAndErasesByKeys) {
  Typing user;
  EXPECT_EQ(user.line("abc\x1b[D\x1b[DX"), "aX|bc");
  EXPECT_EQ(user.line("\x01"), "|aXbc");
  EXPECT_EQ(user.line(kLeft), "|aXbc");
  EXPECT_EQ(user.line("\x05"), "aXbc|");
  EXPECT_EQ(user.line(kRight), "aXbc|");
  EXPECT_EQ(user.line("\x7f"), "aXb|");
  EXPECT_EQ(user.line("\x1b[H\x1b[3~"), "|Xb");
  EXPECT_EQ(user.line("\x1b[4~\x02\x06\x08"), "X|");
  EXPECT_EQ(user.line("yz\x1bOHa\x1bOFb\x1b[1~c\x1b[8~d"), "caXyzbd|");
  EXPECT_EQ(user.line("\x01\x06\x04"), "c|Xyzbd") << "Ctrl-D erases";
  EXPECT_EQ(user.enter().text, "cXyzbd") << "Enter takes the whole line, wherever the cursor is";
  EXPECT_EQ(user.line("\x7f\x1b[3~"), "|");
}

TEST(LineEditor, ErasesPartsOfTheLineAndBringsThemBack) {
  Typing user;
  EXPECT_EQ(user.line("the quick fox\x17"), "the quick |");
  EXPECT_EQ(user.line("\x19\x19"), "the quick foxfox|");
  EXPECT_EQ(user.line("\x1b"
                      "b\x0b"),
            "the quick |");
  EXPECT_EQ(user.line("\x1b[1;5D\x15"), "|quick ");
  EXPECT_EQ(user.line("\x19"), "the |quick ");
  EXPECT_EQ(user.line("\x1b"
                      "d"),
            "the | ");
  EXPECT_EQ(user.line("\x1b[1;5D\x1b"
                      "f"),
            "the|  ");
  EXPECT_EQ(user.line("\x1b\x7f"), "|  ");
  EXPECT_EQ(user.line("\x0b\x17\x15"), "|");
  EXPECT_EQ(user.line("你好，世界\x17"), "你好，|");
}

TEST(LineEditor, MovesByWholeCharacters) {
  Typing user;
  EXPECT_EQ(user.line(std::string("今天好") + kLeft + kLeft + "很"), "今很|天好");
  EXPECT_EQ(user.line("\x7f\x7f\x1b[3~"), "|好");
  user.type("\x15\x0b");
  EXPECT_EQ(user.line(std::string("ae\u0301b") + kLeft + kLeft), "a|e\u0301b") << "an accent that combines";
  EXPECT_EQ(user.line("\x1b[3~"), "a|b");
  EXPECT_EQ(user.line(std::string("👩‍👩‍👧") + kLeft), "a|👩‍👩‍👧b")
      << "a family is one character";
  EXPECT_EQ(user.line("\x1b[3~\x1b[3~e\u0301\x7f"), "a|");
  EXPECT_EQ(user.line(std::string("\u0301") + kLeft), "|a\u0301") << "an accent joins the letter before";
}

TEST(LineEditor, TakesCharactersThatArriveInParts) {
  Typing user;
  for (const char byte : std::string("天é👧")) user.type(std::string(1, byte));
  for (const char byte : std::string("\x1b[1;5Dx\x1b[200~p\nq\x1b[201~")) user.type(std::string(1, byte));
  EXPECT_EQ(user.line(), "xp\nq|天é👧");
  user.type("\x1b");
  EXPECT_TRUE(user.keys.is_ambiguous());
  user.keys.give_up_escape();
  EXPECT_EQ(user.line("[A"), "xp\nq[A|天é👧") << "Escape alone does nothing";
}

TEST(LineEditor, ShowsInvalidBytesAndIgnoresUnknownKeys) {
  Typing user;
  EXPECT_EQ(user.line("a\xff\xc3(b"), "a\ufffd\ufffd(b|");
  EXPECT_EQ(user.line("\x15\x1b[15~\x1b[<0;1;2M\x1bq\x1b[97;5u\x1b\x1b[D\x14\x1fz"), "z|");
  user.paste("\xff\x1b[D");
  EXPECT_EQ(user.line(), "z\ufffd\x1b[D|") << "keys in a pasted text are text";
}

TEST(LineEditor, APastedTextIsPartOfOneTurn) {
  Typing user;
  user.paste("one\r\ntwo\rthree\n");
  EXPECT_EQ(user.line(), "one\ntwo\nthree|");
  EXPECT_EQ(user.enter("!"), (Turn{"one\ntwo\nthree!", true}));
  user.paste("single");
  EXPECT_EQ(user.enter(), (Turn{"single", false}));
  user.type("/system ");
  user.paste("be\nkind");
  EXPECT_EQ(user.enter(), (Turn{"/system be\nkind", false})) << "a command with a pasted text";
  user.paste("\"\"\"Docstring\nx \\");
  EXPECT_EQ(user.enter(), (Turn{"\"\"\"Docstring\nx \\", true})) << "quotes and backslashes are text";
  user.paste("a\nb");
  user.type("\x15\x7f\x15");
  EXPECT_EQ(user.enter("/help"), (Turn{"/help", false})) << "the pasted text was erased";
}

TEST(LineEditor, EntersSeveralLines) {
  Typing user;
  EXPECT_EQ(user.line("the\\\rfox\\\r"), "the\nfox\n|");
  EXPECT_EQ(user.enter("dog").text, "the\nfox\ndog");
  EXPECT_EQ(user.line("the\x1b\rfox\x1b[13;2u"), "the\nfox\n|") << "Alt-Enter, Shift-Enter";
  user.type("\x03");
  EXPECT_EQ(user.line("\"\"\"\rthe\r\rfox\r"), "\"\"\"\nthe\n\nfox\n|");
  EXPECT_EQ(user.enter("\"\"\"").text, "the\n\nfox");
  EXPECT_EQ(user.enter("\"\"\"the\\\rfox\"\"\"").text, "the\\\nfox") << "a backslash in a block is text";
  EXPECT_EQ(user.enter("\"\"\"\"\"\"").text, "");
  user.type("\"\"\"");
  user.paste("the\nfox");
  EXPECT_EQ(user.enter("\"\"\"").text, "the\nfox");
}

TEST(LineEditor, MovesBetweenTheLinesOfATurn) {
  Typing user;
  EXPECT_EQ(user.line("天天天天\x1b\rab\x1b\rabcdef"), "天天天天\nab\nabcdef|");
  EXPECT_EQ(user.line(std::string(kLeft) + kLeft + kUp), "天天天天\nab|\nabcdef");
  EXPECT_EQ(user.line(kUp), "天|天天天\nab\nabcdef") << "the same column";
  EXPECT_EQ(user.line("\x05\x0b"), "天天天天|\nab\nabcdef") << "Ctrl-K erases up to the line's end";
  EXPECT_EQ(user.line("\x1b[3~"), "天天天天|ab\nabcdef");
  EXPECT_EQ(user.line(std::string(kDown) + "\x01\x7f"), "天天天天ab|abcdef");
  EXPECT_EQ(user.line(std::string("\x1b\r") + kLeft), "天天天天ab|\nabcdef");
}

TEST(LineEditor, BringsBackEarlierTurns) {
  Typing user;
  for (const char* turn : {"one", "two", "two", "  ", "three\\\rlines"}) user.enter(turn);
  EXPECT_EQ(user.line(std::string("new") + kUp), "three\nlines|");
  EXPECT_EQ(user.line(kUp), "three|\nlines") << "within the turn first";
  EXPECT_EQ(user.line(kUp), "two|") << "without blanks and repetitions";
  EXPECT_EQ(user.line(std::string("!") + kUp + kUp + kUp), "one|");
  EXPECT_EQ(user.line(kDown), "two!|") << "changes are kept";
  EXPECT_EQ(user.line("\x0e\x0e"), "new|");
  EXPECT_EQ(user.line(kDown), "new|");
  EXPECT_EQ(user.line("\x10\x10"), "two!|");
  EXPECT_EQ(user.enter().text, "two!");
  EXPECT_EQ(user.line("\x10\x10\x10"), "two|") << "until a turn is entered";
  user.type("\x03");
  user.paste("/a\nb");
  user.enter();
  EXPECT_EQ(user.enter(kUp), (Turn{"/a\nb", true}));
}

TEST(LineEditor, EndsAndInterrupts) {
  Typing user;
  EXPECT_EQ(user.type("\x04"), Outcome::ended);
  EXPECT_EQ(user.type("\x03"), Outcome::interrupted);
  EXPECT_EQ(user.type("abc\x03"), Outcome::emptied);
  EXPECT_EQ(user.line(), "|");
  EXPECT_EQ(user.type("abc\x0c"), Outcome::cleared);
  EXPECT_EQ(user.type("\x1a"), Outcome::suspended);
  EXPECT_EQ(user.line("\x01\x04"), "|bc");
  EXPECT_EQ(user.type("\x1b[200~\x03\x04\x1b[201~"), Outcome::none);
}

TEST(LineEditor, IsQuickWithALongText) {
  Typing user;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "一行文字 and words, line " + std::to_string(i) + "\n";
  const auto begin = std::chrono::steady_clock::now();
  for (size_t at = 0; at < 5; ++at) user.keys.feed(at == 0 ? kPasteBegin + text : text);
  user.type(kPasteEnd);
  for (int i = 0; i < 100; ++i) user.type(std::string(kUp) + "x\x7f" + kLeft);
  EXPECT_EQ(user.enter().text.size(), 5 * text.size() - 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace attend::cli
