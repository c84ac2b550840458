#include "cli/explain_words.h"

#include <cstdlib>

namespace attend::cli {
namespace {

constexpr ExplainWords kEnglish{
    .title = "Attention, step by step: ",
    .tokens = "Tokens",
    .split = "The text is split into {1} tokens: words, or single characters in scripts written without spaces.",
    .one_token = "The text is one token: a word, or a single character in scripts written without spaces.",
    .cut = "The tables show the first {1} tokens; --limit N shows more, --json has all.",
    .vectors = "Vectors",
    .vectors_text =
        "Each token becomes a vector of {1} numbers. A model learns these vectors; here they are random "
        "numbers that depend on the token's text and --seed, so the same token always has the same vector.",
    .positions = "Positions",
    .positions_text =
        "Attention alone does not know the order of its inputs. A vector of sines and cosines, different "
        "at each position, is added to each token's vector. All later steps use the sums.",
    .projections = "Queries, keys, values",
    .projections_text =
        "Each token has a query (what it looks for), a key (what others find it by) and a value (what "
        "it passes on). In the simplest attention all three are the vector itself; --trainable "
        "computes each with its own matrix.",
    .matrices_text =
        "Each token has a query (what it looks for), a key (what others find it by) and a value (what it "
        "passes on), each computed from x with its own matrix. Training learns these matrices; here they "
        "are random numbers from --seed.",
    .of_head = ", head {1}",
    .head = "── Head {1} ──",
    .head_text = "This head sees features [{1}] to [{2}] of every query, key and value.",
    .dots = "Dot products",
    .dots_text =
        "How well does the query of token i (row) match the key of token j (column)? Multiply the vectors "
        "number by number and add up: the result is large if they point the same way, negative if they point "
        "in opposite directions.",
    .dots_example = "Example, row {1}, column {2}: {3}",
    .scaling = "Scaling",
    .scaling_formula = "score_ij / √d   with d = {1}",
    .scaling_text =
        "Longer vectors give larger scores, and a softmax of large scores puts nearly all weight on one "
        "token. Dividing by √{1} = {2} keeps the scores in the same range for vectors of any size.",
    .example = "Example: {1}",
    .no_mask = "No mask",
    .no_mask_text = "Every token may attend to every other, including later ones, as in an encoder.",
    .mask = "Causal mask",
    .mask_formula = "score_ij = −∞ where j > i",
    .mask_text =
        "A model that predicts the next token must not see it: each token attends only to itself and to "
        "earlier tokens. −∞ becomes exactly 0 in the next step.",
    .softmax = "Softmax: the attention weights",
    .softmax_text =
        "The exponential makes every score positive; dividing by the sum of the row makes each row add up "
        "to 1. Row i shows how token i distributes its attention.",
    .context = "Context vectors",
    .context_text =
        "Each token's new vector is the sum of all values, each multiplied by its weight: the information "
        "that the token gathers from the tokens it attends to.",
    .context_example = "Example, first number of {1}: {2}",
    .all_heads = "── All heads ──",
    .joining = "Joining the heads",
    .joining_formula = "c_i = [c_i of head 1, c_i of head 2, …]",
    .joining_text = "Each head attends in its own way; their context vectors are concatenated.",
    .output = "Output",
    .output_text = "A last matrix combines the results of the heads."};

constexpr ExplainWords kChinese{
    .title = "一步一步看注意力：",
    .tokens = "词元",
    .split = "文本切分成 {1} 个词元：有空格的文字切成词，没有空格的文字切成单字。",
    .one_token = "文本是一个词元：一个词，或者没有空格的文字中的一个字。",
    .cut = "表格只显示前 {1} 个词元；--limit N 可以显示更多，--json 包含全部。",
    .vectors = "向量",
    .vectors_text =
        "每个词元变成一个由 {1} 个数组成的向量。模型通过训练学到这些向量；这里它们是由词元的文字和 --seed "
        "决定的随机数，所以相同的词元向量也相同。",
    .positions = "位置",
    .positions_text =
        "注意力本身不知道输入的先后。给每个词元的向量加上一个由正弦和余弦组成的向量，每个位置各不相同。"
        "后面的步骤都使用相加的结果。",
    .projections = "查询、键、值",
    .projections_text =
        "每个词元有查询（它在找什么）、键（别的词元凭什么找到它）和值（它传递什么）。在最简单的注意力里，"
        "三者都是向量本身；加上 --trainable，则各用自己的矩阵计算。",
    .matrices_text =
        "每个词元有查询（它在找什么）、键（别的词元凭什么找到它）和值（它传递什么），各由 x 乘以自己的矩阵"
        "得到。训练会学到这些矩阵；这里它们是由 --seed 生成的随机数。",
    .of_head = "，头 {1}",
    .head = "── 头 {1} ──",
    .head_text = "这个头只看每个查询、键和值的第 [{1}] 到第 [{2}] 个数。",
    .dots = "点积",
    .dots_text =
        "词元 i（行）的查询与词元 j（列）的键有多匹配？把两个向量逐个相乘再相加：方向一致时结果大，方向相反时为负。",
    .dots_example = "例如，行 {1}、列 {2}：{3}",
    .scaling = "缩放",
    .scaling_formula = "score_ij / √d   其中 d = {1}",
    .scaling_text =
        "向量越长，得分越大，而得分很大时 softmax 会把几乎全部权重给一个词元。除以 √{1} = {2}，使任何长度的"
        "向量得分都在同样的范围。",
    .example = "例如：{1}",
    .no_mask = "没有掩码",
    .no_mask_text = "每个词元都可以看到所有其他词元，包括后面的，就像在编码器里那样。",
    .mask = "因果掩码",
    .mask_formula = "score_ij = −∞，若 j > i",
    .mask_text = "预测下一个词元的模型不能看到它：每个词元只能看到自己和前面的词元。−∞ 在下一步正好变成 0。",
    .softmax = "softmax：注意力权重",
    .softmax_text = "指数使每个得分为正；除以整行的和，使每行加起来等于 1。第 i 行表示词元 i 如何分配它的注意力。",
    .context = "上下文向量",
    .context_text = "每个词元的新向量是所有值的和，每个值乘以自己的权重：这就是词元从它所看的词元那里得到的信息。",
    .context_example = "例如，{1} 的第一个数：{2}",
    .all_heads = "── 所有的头 ──",
    .joining = "合并各个头",
    .joining_formula = "c_i = [头 1 的 c_i, 头 2 的 c_i, …]",
    .joining_text = "每个头用自己的方式计算注意力，它们的上下文向量拼接在一起。",
    .output = "输出",
    .output_text = "最后一个矩阵把各个头的结果合在一起。"};

}  // namespace

const ExplainWords& explain_words(const std::string& language) { return language == "zh" ? kChinese : kEnglish; }

std::string language_of_locale() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {  // the first one that is set counts, as in setlocale(3)
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return std::string(value).starts_with("zh") ? "zh" : "en";
  }
  return "en";
}

std::string filled(std::string text, std::initializer_list<std::string> parts) {
  int number = 0;
  for (const std::string& part : parts) {
    const std::string mark = "{" + std::to_string(++number) + "}";
    if (const size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), part);
  }
  return text;
}

}  // namespace attend::cli
