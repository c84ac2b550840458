export const enSteps = {
  embedding: {
    title: "Embedding",
    text: "Each token of the vocabulary has a row of learned numbers, its embedding. Tokens that are used alike end up with similar rows.",
  },
  position: {
    title: "Position",
    text: "Attention by itself does not know the order of tokens, so every place has numbers of its own that are added. The first layer gets this sum.",
  },
  normFirst: {
    title: "Norm",
    text: "Before the branch the vector is brought to a fixed size, which keeps deep stacks stable. Only the direction and the relative sizes remain.",
  },
  query: {
    title: "Query",
    text: "A learned matrix turns the token’s vector into its query: what this token is looking for. Each head has its own matrix, so each looks for something else.",
  },
  keys: {
    title: "Keys",
    text: "Another matrix turns every token into a key: what it offers to those who look. Row by row these are the keys the query will be compared with.",
  },
  values: {
    title: "Values",
    text: "What a token passes on when it is looked at is its value, made by a third matrix. Being found (key) and being useful (value) are separate matters.",
  },
  products: {
    title: "Dot products",
    text: "The query is compared with each key by their dot product: multiply dimension by dimension and add up. It is large where both point the same way.",
  },
  additive: {
    title: "Score",
    text: "Bahdanau’s attention adds query and key, passes the sum through tanh and weighs the dimensions. The result is one score for each source token.",
  },
  scale: {
    title: "Scale",
    text: "Sums over many dimensions grow with their number, which would make the softmax too sharp. Dividing by the root of the size keeps them in a good range; a bias, where the model has one, is added here.",
  },
  mask: {
    title: "Mask",
    text: "Keys that must not be looked at get a score of minus infinity. In a language model these are the tokens that come later; elsewhere it is padding.",
  },
  softmax: {
    title: "Softmax",
    text: "The exponential makes every score positive, and dividing by the sum makes them add up to 1. These are the attention weights that every other view draws.",
  },
  sum: {
    title: "Weighted sum",
    text: "Each value is multiplied by its weight and all are added: a mixture of what the tokens had to say. Large weights decide what it looks like.",
  },
  concatenation: {
    title: "Concatenation",
    text: "The results of all heads are put side by side, each in its own part. Underlines show which head wrote which part.",
  },
  projection: {
    title: "Output projection",
    text: "A last matrix mixes the heads’ results back into one vector of the model’s size. Here what several heads found is combined.",
  },
  residual: {
    title: "Residual",
    text: "The result is added to the vector that came in, so the layer only has to learn what to change. This also lets gradients reach the first layer undiminished.",
  },
  norm: {
    title: "Norm",
    text: "Mean and spread of the sum are brought to fixed values, then scaled and shifted by learned numbers. The next part of the layer always gets inputs of the same size.",
  },
};
