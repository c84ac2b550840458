import type { HeadKind } from "../data/tools";
import type { enFlow, enTools } from "./en_tools";

const heads: Record<HeadKind, string> = {
  previous: "前一词元",
  duplicate: "重复词元",
  induction: "归纳",
  first: "首词元",
  separator: "分隔符",
  positional: "位置",
  alignment: "对齐",
};

const logit = (wanted: string, contrast: string | null) =>
  contrast === null ? `“${wanted}”的 logit` : `“${wanted}”与“${contrast}”的 logit 之差`;

export const zhTools: typeof enTools = {
  computing: "正在计算……",
  start: "开始",
  token: "词元",
  kind: "类型",
  part: "部分",
  total: "合计",
  whole: "整个输入",
  layerNumber: (layer) => `第 ${layer} 层`,
  crossShort: "交叉",
  points: { embedded: "嵌入", tokens: "嵌入", words: "嵌入", states: "状态", outputs: "状态", context: "注意力结果", final: "输出" },
  modules: {
    attention: "自注意力",
    cross_attention: "交叉注意力",
    feed_forward: "前馈网络",
    attention_norm: "自注意力后的归一化",
    cross_attention_norm: "交叉注意力后的归一化",
    feed_forward_norm: "前馈网络后的归一化",
    norm: "最后的归一化",
    embedding_norm: "嵌入的归一化",
    output_bias: "输出层",
    classifier: "分类器",
    pooler: "池化层",
    masked_bias: "输出层",
    masked_dense: "掩码词层",
    masked_norm: "掩码词归一化",
  },
  parts: { token: "词元嵌入", position: "位置", head: "头", feed_forward: "前馈网络", bias: "偏置" },
  kinds: {
    residual: "残差流",
    attention: "注意力输出",
    cross: "交叉注意力输出",
    feed_forward: "前馈网络输出",
    head: "各头（所有位置）",
  },
  allKinds: "全部",
  heads,
  headKinds: "头的类型",
  noKinds: "这一层没有已知类型的头。",
  badgeHint: (kind, text, probe, offset) =>
    [
      kind === "positional" ? `${heads[kind]}（偏移 ${offset}）` : heads[kind],
      text === null ? "" : `本文本 ${text.toFixed(2)}`,
      probe === null ? "" : `重复随机词元 ${probe.toFixed(2)}`,
    ]
      .filter(Boolean)
      .join("，"),

  bestWord: "最可能的词",
  bestLabel: "最可能的标签",
  rankOfLabel: "模型所选标签的名次",
  rankOfTrue: "正确词的名次",
  lensLeadLabels: "模型若在某一层停下会说什么：整个输入和每个位置最可能的标签。",
  lensHelpLabels:
    "每个格子是模型若在这一层停下会选择的标签：把模型自己的最后归一化和输出层用在这里的残差流上。第一列的最后一行就是模型的输出；其他列表示模型若在那个位置读出答案会说什么。概率见色标。前面的层不一定是为输出层准备的，所以那里的标签可能没有意义。",
  lensNone: "透镜需要 Transformer 的残差流，这个模型没有。",
  lensLabel: (rows, columns) => `模型的 ${rows} 处、${columns} 个位置上的预测。用方向键在格子间移动。`,
  lensHelp:
    "每个格子是模型若在这一层停下会预测的词：把模型自己的最后归一化和输出层用在这里的残差流上。最后一行就是模型的输出。概率见色标。前面的层不一定是为输出层准备的，所以那里的词可能没有意义。",
  saysAt: (layer, place) => `${layer}，“${place}”处`,
  entropyOf: (entropy) => `熵：${entropy.toFixed(2)} 奈特`,
  rising: (word, isTrue) => (isTrue ? `正确的词“${word}”在各层的概率` : `模型的选择“${word}”在各层的概率`),
  rank: (rank) => `第 ${rank} 名`,

  wanted: "支持",
  wantedHint: "最可能的词",
  wantedOther: "另一个的预测",
  contrastOwn: "这一个的预测",
  wantedLabel: "最可能的标签",
  contrast: "对比",
  contrastHint: "无",
  afterPlace: "位置",
  atPlace: "位置",
  lastPlace: "最后一个词元之后",
  goal: (wanted, contrast, value) =>
    contrast === null
      ? `“${wanted}”的 logit 是 ${value.toFixed(3)}。它从哪里来？`
      : `“${wanted}”与“${contrast}”的 logit 之差是 ${value.toFixed(3)}。它从哪里来？`,
  tokensTitle: "输入词元",
  tokensLabel: (count) => `用两种方法归因到 ${count} 个词元`,
  integrated: "积分梯度",
  gradientTimesInput: "梯度 × 输入",
  averageWord: "每个词元都取词表平均嵌入时",
  averagePatch: "每个图块都取这张图片的平均向量时",
  completeness: (value, baseline, average, error, steps) =>
    `积分梯度之和等于该值减去${average}的值：${value.toFixed(3)} − ${baseline.toFixed(3)}。误差 ${(error * 100).toFixed(2)} %，共 ${steps} 步。`,
  partsTitle: "模型的各部分",
  partsLabel: (rows) => `模型 ${rows} 个部分的直接贡献`,
  biases: "偏置",
  partsSum: (value, remainder) =>
    `各部分之和为 ${value.toFixed(4)}；舍入造成的差为 ${Math.abs(remainder).toExponential(1)}。`,
  partsNone: "这个模型没有残差流，无法把预测分到各部分。",
  attributeHelp: (labels) =>
    `橙色的部分提高该值，蓝色的降低它。模型各部分是直接贡献：一个头或前馈网络写入残差流、由输出层读出的量，各归一化的尺度取本次运行中的值。一个部分通过后面各层产生的影响算在那些层上。多数 logit 有共同的部分；在“对比”中${labels ? "选一个标签" : "填一个词"}可以消去它。`,
  attributeContrastHelp: (labels) =>
    `橙色的部分支持前一个${labels ? "标签" : "词"}，蓝色的支持后一个。模型各部分是直接贡献：一个头或前馈网络写入残差流、由输出层读出的量，各归一化的尺度取本次运行中的值。`,

  otherText: "另一文本",
  otherHint: "词元数相同",
  thisPicture: "本图片",
  otherPicture: "另一图片",
  chooseOther: "选择另一张图片",
  patchExplain: "每层每个位置、每个头都要运行一次模型，两边激活相同的除外。计算过程中图会逐步填满。",
  patchLabel: (rows, columns) => `${rows} × ${columns} 个补丁的效果。用方向键在格子间移动。`,
  patchTexts: {
    lead: undefined,
    start: "输入另一个只差一个词、词元数相同的文本，例如把“埃菲尔铁塔在”换成“罗马斗兽场在”。",
    goal: (wanted, contrast, value, other) =>
      `${logit(wanted, contrast)}：本文本为 ${value.toFixed(2)}，另一文本为 ${other.toFixed(2)}。`,
    help: "每个格子是本文本的一次运行，其中一个激活换成另一文本的激活。0：没有变化。1：预测完全变成另一文本的预测。",
  },
  patchPictures: {
    lead: "把另一张图片的激活逐一放进本图片的运行，看哪一处决定预测。",
    start: "选择另一张图片，模型对它的分类应当不同。",
    goal: (wanted, contrast, value, other) =>
      `${logit(wanted, contrast)}：本图片为 ${value.toFixed(2)}，另一图片为 ${other.toFixed(2)}。`,
    help: "每个格子是本图片的一次运行，其中一个激活换成另一图片的激活；r2c3 是第 2 行第 3 列的位置。0：没有变化。1：预测完全变成另一图片的预测。",
  },

  probeNone: "用词表示电路需要读文本的 Transformer。",
  words: "词",
  wordsHint: "文本的词元",
  copying: (share, sampled) =>
    `从词表抽取 ${sampled} 个词，这个头看到其中 ${(share * 100).toFixed(0)} % 时，提高最多的十个词里有这个词自身：${share > 0.5 ? "它在复制。" : share > 0.15 ? "它有时复制。" : "它不复制。"}`,
  noCopying: "这个头读的词与模型写的词不同，无法衡量复制。",
  ovTitle: "这个头写什么（OV）",
  ovHelp: "如果这个头看着一个词元，前一列的词变得更可能，后一列的词变得更不可能。",
  qkTitle: "这个头找什么（QK）",
  qkHelp: "如果一个词元是查询，这个头最看重前一列的词，最不看重后一列的词。",
  raises: "更可能",
  lowers: "更不可能",
  seeks: "看向",
  avoids: "避开",
  probeHelp:
    "电路是模型矩阵的乘积，用嵌入代替残差流。位置和前面的层不计入，所以对最前面的层最有意义。指向一个词可以看到它的数值。",

  steerNone: "引导需要读文本的模型。",
  toward: "朝向",
  towardHint: "一个词或句子",
  away: "远离",
  awayHint: "可选",
  strength: "强度",
  steerStart: "输入要引导到的词或句子，例如朝向“爱”、远离“恨”。",
  steerHelp:
    "方向是这一层上前一文本的平均激活减去后一文本的平均激活，乘以强度后加到每个位置的残差流上。点击“全部恢复”之前，显示这段文本的视图都显示被引导的运行；生成、对话、透镜、归因、补丁和探查显示未经引导的模型。网页地址包含这个方向，可以分享。",
};

export const zhFlow: typeof enFlow = {
  play: "播放",
  start: "指向一个部分，或按“播放”，看看那里发生了什么。点击名称可以打开它。",
  opens: (view) => `打开“${view}”`,
  weightScale: "图：注意力权重",
  vectorScale: "向量：相对于最大的数",
  help: "所有数字都是模型对这个输入自己算出的。点击一个词元可以跟踪另一个位置。",
  leads: {
    labels: "一个文本如何穿过模型：词元、向量、每一层，直到各标签的得分。",
    image: "一张图片如何穿过模型：图块、向量、每一层，直到各标签的得分。",
    masked: "一个文本如何穿过模型：词元、向量、每一层，直到所选位置上各个词的概率。",
    none: "一个文本如何穿过模型：词元、向量和每一层。",
  },
  tokens: { title: "词元", text: "文本被切成词元，每个词元在词表中有一个编号。模型只读这些编号。" },
  patches: {
    title: "图块",
    text: "图片被切成方形图块，模型读图块就像别的模型读词。[CLS] 是另外一个位置，代表整张图片。",
  },
  vectors: {
    title: "向量",
    patches: "图块的颜色经学到的矩阵变成一个向量，再加上位置。从这里起，每个位置都是一个向量。",
    embedding: "每个词元的编号选出一个学到的向量，即嵌入。从这里起，每个位置都是一个向量。",
    positions: {
      learned: "再加上这个位置的学到的向量。",
      sinusoidal: "再加上由正弦和余弦构成的位置向量。",
      rotary: "位置信息在后面加入：各层旋转查询和键。",
      alibi: "位置信息在后面加入：各层降低较远词元的得分。",
      relative: "位置信息在后面加入：各层按距离给得分加上一个学到的数。",
      none: "这个模型不加入位置信息。",
    },
  },
  shownOf: (shown, all) => `共 ${all.toLocaleString("en")} 个位置，只画出 ${shown} 个。`,
  vectorsLabel: (rows, width) => `${rows} 个向量，每个 ${width} 个数，用颜色表示`,
  vectorOf: (token, width) => `“${token}”的向量：${width} 个数。橙色为正，蓝色为负。`,
  layer:
    "在每一层中，每个位置先从其他位置收集信息：每个头有自己的图，表示谁看谁。然后前馈网络对每个位置单独变换。两个结果都加到该位置的向量上。",
  crossLayer: "解码器的一层先看已写出的词，再用交叉注意力看源文，然后每个位置经过前馈网络。所有结果都加到该位置的向量上。",
  maps: "谁看谁，每个头一张图",
  cross: "谁看哪个源词元",
  mapsLabel: (name, heads) => `${name}：${heads} 个头的图。用方向键移动，回车打开。`,
  headOf: (name, head, badges) =>
    `${name}，头 ${head}${badges.length ? `（${badges.join("，")}）` : ""}：行看列，颜色表示权重。点击打开。`,
  neurons: "神经元",
  residual: "本层之后",
  output: {
    title: "概率",
    text: "最后的向量与词表中每个词的向量比较，softmax 把结果变成概率。温度、top-k 和 top-p 决定哪些词可以被抽到。",
    masked: "这个模型预测每个位置上的词，没有被掩码的位置也预测。该位置的向量再经过一层，与词表中每个词的向量比较，softmax 把结果变成概率。",
  },
  recurrent: {
    encoder: {
      title: "编码器",
      text: "循环网络逐个词元读入源文。它在每个词元处的状态是一个向量，包含前面词元的信息；如果网络双向读取，也包含后面词元的信息。",
    },
    attention:
      "每一步，解码器把自己的状态与编码器的各个状态比较，看向匹配的那些：图中表示谁看哪个源词元。状态、看到的向量和上一个词元合成读出向量，再由它得到概率。",
    state: "状态",
    readout: "读出",
  },
  labels: "标签",
  labelsText: "最后的向量变成每个标签的得分。",
  noOutput: "这个模型没有输出层：它的结果就是这些向量。",
  fileOnly: "滑块需要“attend view”：这个文件只有最可能的几个词。",
  topK: "Top-k",
  topP: "Top-p",
  off: "关",
  possible: (count, words) => `${words.toLocaleString("en")} 个词中有 ${count.toLocaleString("en")} 个可以被抽到。`,
};
