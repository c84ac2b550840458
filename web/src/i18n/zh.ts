import type { Feature } from "../data/source";
import type { Attention } from "../data/types";
import type { ViewName } from "../state";
import type { Messages, ViewText } from "./index";
import { zhChat } from "./zh_chat";
import { zhSteps } from "./zh_steps";

type Place = Pick<Attention, "stack" | "kind" | "layer" | "heads">;

const stack = (name: Attention["stack"]) =>
  ({ encoder: "编码器", decoder: "解码器", stack: "各层", rnn: "循环网络" })[name];
const views: Record<ViewName, ViewText> = {
  heads: {
    name: "注意力头",
    text: "哪个词元在看哪个词元：每条线代表一个权重，每种颜色代表一个头。指向一个词元，就只显示与它有关的线。",
  },
  model: { name: "整个模型", text: "每层的每个头一览无余。对角线、单独一列等图案反映出一个头的作用。" },
  matrix: {
    name: "矩阵",
    text: "一个头画成一张图：每行是一个查询，每列是一个键。可以放大到看清单个权重。",
  },
  neurons: { name: "神经元", text: "权重从何而来：查询与键逐维对照，以及每一维对得分的贡献。" },
  steps: { name: "逐步计算", text: "一个词元的完整计算过程，一步一步列出，用的是模型自己的数字。" },
  alignment: { name: "对齐", text: "译文的每一部分来自源文的哪一部分。方框标出由权重得到的对齐。" },
  chat: { name: "对话", text: "与模型对话。每个词都能显示它还可能是什么，并打开选出它的那一刻。" },
  generation: { name: "生成", text: "模型怎样生成文本：每个词元的候选、模型看了哪里，以及束搜索的树。" },
  embeddings: { name: "嵌入", text: "模型的词表画在一个平面上：取嵌入差异最大的两个方向。" },
  compare: { name: "比较", text: "两个模型、两层或两个句子并排比较；指向一个格子，两边会同时标出。" },
  training: { name: "训练", text: "训练的损失、学习率和速度，以及注意力随训练的变化。" },
  ablate: { name: "消融", text: "关闭一个头，或隐藏一个词元，看看结果有什么变化。" },
};
const missing: Record<Feature, string> = {
  runs: "其他文本",
  generation: "生成过程",
  chat: "可对话的模型",
  embeddings: "嵌入",
  neighbours: "最近邻",
  training: "训练记录",
  alignment: "对齐",
  tiles: "这个矩阵",
  compare: "另一个模型或句子",
  array: "这些数字",
};
const number = (value: number) => value.toLocaleString("en");

export const zh: Messages = {
  name: "中文",
  views,
  steps: zhSteps,
  chat: zhChat,
  skip: "跳到主要内容",
  viewsLabel: "视图",
  language: "语言",
  theme: "主题",
  themes: { "": "跟随系统", light: "浅色", dark: "深色" },
  model: "模型",
  text: "文本",
  target: "译文",
  targetHint: "留空则由模型翻译",
  second: "第二句",
  secondHint: "可选，用于句对",
  picture: "图片",
  choosePicture: "选择图片",
  pictureHint: "PNG 或 JPEG；也可以把图片拖到本页任意处",
  prediction: (labels) => `预测：${labels}`,
  run: "显示",
  busy: "正在计算……",
  facts: (parameters, words, architecture) => `${architecture} · ${parameters} 个参数 · 词表 ${words}`,
  factsOfPictures: (parameters, patches, architecture) => `${architecture} · ${parameters} 个参数 · ${patches} 个图块`,
  timing: (milliseconds, tokens) =>
    `${tokens} 个词元，${milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0)} 毫秒`,
  fileNote: "此文件只包含一次运行。要尝试其他文本，请用“attend view 模型”。",
  save: "将此视图存为",
  asTable: "以表格显示数字",
  missing: (feature: Feature) => `此文件不包含${missing[feature]}；请用“attend view 模型”打开模型。`,
  unreachable: "服务器没有响应，可能已经停止。请重新启动服务器，再刷新本页。",
  tooLong: "此视图适合约一千个词元以内的文本；更长的请看“矩阵”。",
  stack,
  attention: (one: Place) =>
    one.stack === "rnn" ? "注意力" : `第 ${one.layer} 层 · ${one.kind === "self" ? "自注意力" : "交叉注意力"}`,
  attentionFull: (one: Place) =>
    one.stack === "rnn"
      ? "注意力"
      : `${one.stack === "stack" ? "" : stack(one.stack)}第 ${one.layer} 层${one.stack === "stack" ? "" : ` · ${one.kind === "self" ? "自" : "交叉"}`}`,
  side: (name) => ({ source: "源文", target: "译文", text: "文本", image: "图像" })[name],
  layer: "层",
  heads: "头",
  headLabel: "头",
  head: (index) => `头 ${index}`,
  switchedOff: "已关闭",
  threshold: "权重下限",
  groupWords: "合并成词",
  sentences: "句子",
  pair: (which) =>
    ({ "": "全部", aa: "第一句 → 第一句", ab: "第一句 → 第二句", ba: "第二句 → 第一句", bb: "第二句 → 第二句" })[which],
  asks: "查询",
  answers: "键",
  query: "查询",
  key: "键",
  weight: "权重",
  score: "得分",
  token: "词元",
  tokens: "词元",
  positions: "位置",
  rankedKey: (n) => `权重第 ${n} 大的键`,
  topThree: "每个头中，每个查询权重最大的三个键。",
  headsLabel: (layer, rows, columns) => `${layer}的注意力：左边 ${rows} 个词元看右边 ${columns} 个。用方向键移动。`,
  headsHelp:
    "上下键在词元间移动，左右键换边，Esc 显示全部。按住 Shift 点击或双击一个头，只看这个头。最多画出最强的 6,000 条线。",
  headsLong: "文本较长：指向一个词元，或用方向键移动，才会加载并画出它的线。",
  patch: "图块",
  patchesCaption: (token) => `${token} 的注意力`,
  patchesLabel: (rows, columns) =>
    `模型看到的图片，${rows} 行 ${columns} 列图块；旁边的几张图中，亮处是所选图块看向的地方。用方向键在图块间移动。`,
  patchesHelp:
    "指向一个图块，或用方向键移动，即可显示它看向哪里；点击可固定；按 Home 键回到代表整张图片的 [CLS]。每张图中最亮的图块权重最大。",
  meanOfHeads: "各头的平均",
  rollout: "逐层累积（rollout）",
  headsAsLines: "同样的权重，画成连线",
  spokenToken: (token, gives, best) => (gives ? `${token} 看向 ${best}` : `看向 ${token} 的有 ${best}`),
  modelLabel: (layers, heads) => `${layers} 个注意力层，${heads} 个头。方向键移动，回车打开。`,
  modelHelp: "点击或按回车打开一个头，按 M 以矩阵打开。每张图下方是头的编号，以及各行最大权重的平均值。",
  openHead: "打开",
  entropy: "熵",
  distance: "距离",
  peak: "最大权重",
  peakShort: "最大",
  received: "得到",
  matrixLabel: (rows, columns) => `注意力权重，${rows} 行 ${columns} 列。方向键移动，加减号缩放。`,
  matrixHelp:
    "拖动可移动，滚轮或双指缩放；方向键在格子间移动，+ 与 − 缩放，0 显示全部。蓝条：每行的熵。绿条：每个词元得到的权重总和。",
  readout: (query, key, weight) => `“${query}”对“${key}”的权重：${weight.toFixed(6)}`,
  colourScale: "颜色",
  rootScale: "按平方根",
  logScale: "按对数",
  zoom: "缩放",
  zoomIn: "放大",
  zoomOut: "缩小",
  all: "全部",
  neuronsLabel: (query) => `“${query}”的查询与每个键逐维对照。用方向键选择键。`,
  neuronsHelp: "橙色为正，蓝色为负；颜色越深，数值越大。用鼠标或方向键选择键。",
  pairTitle: "选中的一对",
  sumOfProducts: "和",
  dimension: "维",
  maskedShort: "已遮住",
  sumSentence: (n) => {
    const bias = n.additive || n.score === -Infinity ? 0 : n.score - n.sum * n.scale;
    const scaled = n.additive
      ? ""
      : ` × ${n.scale.toFixed(4)}${Math.abs(bias) > 1e-3 ? ` ${bias < 0 ? "−" : "+"} 偏置 ${Math.abs(bias).toFixed(3)}` : ""}`;
    return n.score === -Infinity
      ? `和为 ${n.sum.toFixed(4)}，但已被掩码遮住：权重为 0。`
      : `和 ${n.sum.toFixed(4)}${scaled} = 得分 ${n.score.toFixed(4)}；经 softmax 后权重为 ${n.weight.toFixed(4)}。`;
  },
  stepsHelp: "每张图下方的表格列出其中的数字。把此视图存为 JSON，可得到全部数字。",
  ifWord: "若",
  orWord: "或",
  isMasked: "被遮住",
  vectorLabel: (name, size) => `${name}：${size} 个数字，以颜色表示`,
  barsLabel: (count) => `${count} 个数字，每个键一个`,
  maskCheck: (masked, keys) =>
    masked === 0 ? `这里没有遮住任何键：${keys} 个键都可见。` : `${keys} 个键中有 ${masked} 个被遮住。`,
  normCheck: (rms, mean, deviation) =>
    rms ? `根号的值为 ${deviation.toFixed(4)}。` : `μ = ${mean.toFixed(4)}，根号的值为 ${deviation.toFixed(4)}。`,
  bestOf: (count) => `只显示最大的 ${count} 个。`,
  headIsOff: "这个头已被关闭：下一步里它的位置是 0。",
  sumCheck: (sum) => `权重之和为 ${sum.toFixed(6)}。`,
  equalCheck: (difference) => `由本页根据所示的数字重新算出；与模型自己的结果最多相差 ${difference.toExponential(1)}。`,
  alignmentNone: "这个模型只读一段文本，没有可对齐的内容。对齐适用于翻译模型：transformer 和 rnn-attention。",
  unit: "单位",
  byWord: "词",
  byToken: "词元",
  alignmentLabel: (source, target) => `横向是源文的 ${source} 个词，纵向是译文的 ${target} 个词。用方向键移动。`,
  alignmentHelp:
    "行是译文，列是源文。每行的总和不超过 1，因为略去了不属于词的词元。方框标出对齐；以词元为单位时，即每行最大的权重。",
  alignedWith: "对齐到",
  links: (count) => `对齐的对数：${count}`,
  allLayers: "所有层，所有头",
  allHeads: "所有头",
  generationNone: "这个模型不生成文本，它用于分类。",
  generated: "生成的词元",
  generating: "正在生成……",
  generationDone: (tokens, milliseconds) => `${tokens} 个词元，${milliseconds.toFixed(0)} 毫秒`,
  stopped: "已停止。",
  stop: "停止",
  beam: "束宽",
  length: "长度",
  temperature: "温度",
  seed: "种子",
  candidates: "候选",
  whereLooked: "模型看了哪里",
  beamTree: "束搜索树",
  beamLabel: (beam) => `束搜索的各个假设，每步保留 ${beam} 个。用方向键移动。`,
  givenTarget: "给定，并非生成",
  decodedBy: (beam) => (beam > 1 ? `束搜索，${beam} 个假设` : "贪心搜索"),
  sampledAt: (temperature) => `采样，温度 ${temperature}`,
  generationHelp: "选择一个词元，查看它的候选，以及模型看了哪里。温度大于 0 时改为采样。",
  step: "步",
  stepNumber: (step) => `第 ${number(step)} 步`,
  probability: "概率",
  logProbability: "对数概率",
  kept: "保留",
  show: "显示",
  search: "查找",
  searchHint: "一个词元",
  explained: (x, y) =>
    `平面是前两个主成分，分别占方差的 ${(x * 100).toFixed(1)} % 和 ${(y * 100).toFixed(1)} %。` +
    (x + y > 0.5
      ? "靠得近的点在大多数方面相似。"
      : "向量之间的大部分差别在图上看不到：靠得近的点不一定相似。近邻列表使用所有维度。"),
  shownOf: (shown, total) =>
    `共 ${total.toLocaleString("en")} 个词元，只显示词表中的前 ${shown.toLocaleString("en")} 个；搜索可以找到全部。`,
  positionsLead: "平面上的位置向量：取差异最大的两个方向。",
  picturePositionsLead: "平面上的图块位置向量：取差异最大的两个方向。",
  notFound: (text) => `词表里没有包含“${text}”的词元。`,
  allTokens: (count) => `全部 ${count.toLocaleString("en")} 个词元`,
  embeddingsLabel: (count) => `平面上的 ${count} 个嵌入。方向键移动，加减号缩放。`,
  embeddingsHelp: "拖动可移动，滚轮缩放；点击、查找或用方向键选中一个词元，即可看到它的最近邻。",
  nearestDot: (token) => `按点积与“${token}”最近`,
  nearestCosine: (token) => `按余弦与“${token}”最近`,
  compareReadout: (query, key, a, b) =>
    `“${query}” → “${key}”：A ${Number.isFinite(a) ? a.toFixed(6) : "—"}   B ${Number.isFinite(b) ? b.toFixed(6) : "—"}`,
  compareHint: "指向一个格子，查看两边的权重。",
  compareUnlike: "两边的词元不同，无法画出差值。",
  compareHelp: "为两边分别选择模型、层和头。除非 B 另有句子，否则两边使用同一个句子。",
  textOfB: "B 的文本",
  sameSentence: "同一个句子",
  difference: "差值，B − A",
  differenceLabel: "两张图的差值",
  trainingNone: "这个模型没有训练记录。用“attend train … --watch”可以边训练边看。",
  trainingHelp: "拖动滑块，查看同一个句子在之前某一步的注意力。",
  trainingStatus: (s) =>
    `${s.running ? "进行中" : "已完成"}：第 ${number(s.step)} 步${s.total ? `，共 ${number(s.total)} 步` : ""}，损失 ${s.loss.toFixed(4)}${s.bleu === undefined ? "" : `，BLEU ${s.bleu.toFixed(1)}`}${s.running ? `，约剩 ${Math.ceil(s.secondsLeft)} 秒` : ""}`,
  trainingAt: (step, loss, validation) =>
    `第 ${number(step)} 步：损失 ${loss.toFixed(4)}${validation === undefined ? "" : `，验证 ${validation.toFixed(4)}`}`,
  loss: "损失",
  trainingLoss: "训练",
  validationLoss: "验证",
  learningRate: "学习率",
  speed: "每秒词元数",
  throughTime: "注意力随时间的变化",
  noSnapshots: "没有快照；用“attend train … --watch”训练时会保存快照。",
  smoothed: (smoothing) =>
    `训练损失包含标签平滑（${smoothing}）和 dropout，验证损失两者都不包含，因此可能比训练损失低。`,
  noSnapshotYet: "训练的下一步将显示这个句子。",
  followSentence: "跟踪的句子",
  follow: "跟踪",
  chartLabel: (name) => `${name}随步数的变化。用方向键移动。`,
  mattersMost: (layer, head, loss) =>
    `${layer}的${head}在这里最重要，所以先把它关闭：没有它，模型所预测内容的对数概率平均下降 ${loss.toFixed(3)}。`,
  switchHeads: "头",
  holdTokens: "隐藏的词元",
  reset: "全部恢复",
  outputBeforeAfter: "输出",
  changeOfMaps: "每张图变化了多少",
  afterLessBefore: "之后 − 之前",
  mapBeforeAfter: "一个头：之前与之后",
  before: "之前",
  after: "之后",
  label: "标签",
  afterToken: "此词元之后",
  noOutput: "这个模型没有可比较的输出。",
  ablateHelp: "点击一个头可将其关闭：它的输出变为 0。点击一个词元可将其隐藏：其他词元都不能再看它。",
};
