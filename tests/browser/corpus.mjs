// Small corpora for small models: dates in words and in ISO 8601, labelled sentences, and prose. The output is
// deterministic.

const kEnglish = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const kGerman = [
  "Januar",
  "Februar",
  "März",
  "April",
  "Mai",
  "Juni",
  "Juli",
  "August",
  "September",
  "Oktober",
  "November",
  "Dezember",
];

function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Lines of "3. Mai 2025<tab>2025-05-03". */
export function dates(count, seed = 1) {
  const next = numbers(seed);
  const two = (n) => String(n).padStart(2, "0");
  return Array.from({ length: count }, () => {
    const [year, month, day] = [1950 + next(80), 1 + next(12), 1 + next(28)];
    const forms = [
      `${day}. ${kGerman[month - 1]} ${year}`,
      `${kEnglish[month - 1]} ${day}, ${year}`,
      `${day} ${kEnglish[month - 1]} ${year}`,
      `${year}年${month}月${day}日`,
      `${day}.${month}.${year}`,
    ];
    return `${forms[next(forms.length)]}\t${year}-${two(month)}-${two(day)}`;
  });
}

const kThings = ["book", "lamp", "chair", "phone", "radio", "kettle", "jacket", "bicycle"];
const kGood = ["I love this", "What a wonderful", "I would buy again this", "A really good"];
const kBad = ["I hate this", "What a terrible", "I sent back this", "A really poor"];

/** Lines of "good<tab>I love this lamp.". */
export function reviews(count, seed = 2) {
  const next = numbers(seed);
  return Array.from({ length: count }, () => {
    const good = next(2) === 0;
    const list = good ? kGood : kBad;
    return `${good ? "good" : "bad"}\t${list[next(list.length)]} ${kThings[next(kThings.length)]}.`;
  });
}

const kWho = ["The old man", "A small dog", "My sister", "The teacher", "一只小猫"];
const kDoes = ["walks to", "looks at", "sings near", "runs from", "喜欢"];
const kWhere = ["the river", "the quiet house", "a green hill", "the market", "这座城市"];

/** Consecutive sentences. */
export function prose(count, seed = 3) {
  const next = numbers(seed);
  return Array.from(
    { length: count },
    () => `${kWho[next(kWho.length)]} ${kDoes[next(kDoes.length)]} ${kWhere[next(kWhere.length)]}.`,
  );
}

const kAnswers = [
  ["What is attention?", "Attention is a weighted sum: each word looks at the other words and takes from each as much as its weight says.", "Attention lets each word look at all the words before it."],
  ["Who are you?", "I am a small model that was trained on a few short dialogues.", "I am a very small language model."],
  ["Where do you live?", "I live in a file on your computer.", "I live in the memory of your computer."],
  ["Tell me a story.", "The old man went to the sea. The sea was calm, and the wind was warm. He waited for the fish until the sun went down.", "A small dog ran through the town. It met a cat, and the cat told it the way home."],
  ["What can you do?", "I can talk about the sea, about dogs and about attention.", "I can tell a short story."],
  ["Why is the sea blue?", "The sea is blue because the water takes the red light and leaves the blue light.", "The sea is blue because the sky is blue."],
  ["Hello!", "Hello, how are you?", "Hello! What would you like to talk about?"],
  ["你好！", "你好，很高兴见到你。", "你好，今天想聊什么？"],
  ["什么是注意力？", "注意力就是加权求和：每个词看向其他的词，按权重取用它们的内容。", "注意力让每个词都能看到前面的词。"],
];

/** Short dialogues: "User: …" and "Bot: …" in turn, an empty line between dialogues. */
export function dialogues(count, seed = 5) {
  const next = numbers(seed);
  return Array.from({ length: count }, () => {
    const turns = Array.from({ length: 1 + next(3) }, () => {
      const [question, ...answers] = kAnswers[next(kAnswers.length)];
      return `User: ${question}\nBot: ${answers[next(answers.length)]}\n`;
    });
    return turns.join("");
  });
}
