export const enSteps = {
  embedding: {
    title: "Embedding",
    text: "Each token of the vocabulary has a row of learned numbers, its embedding. Tokens with similar uses end up with similar embeddings.",
  },
  position: {
    title: "Position",
    text: "Attention by itself does not know the order of tokens, so each position has a vector of its own, which is added to the embedding. The first layer gets this sum.",
  },
  normFirst: {
    title: "Norm",
    text: "The vector is normalized to a fixed size before attention, which keeps deep stacks stable. Only the direction and the relative sizes remain.",
  },
  query: {
    title: "Query",
    text: "A learned matrix turns the token’s vector into its query: what this token is looking for. Each head has its own matrix, so each head looks for something different.",
  },
  keys: {
    title: "Keys",
    text: "Another matrix turns every token into a key: what the token offers to a query. Each row below is a key that the query is compared with.",
  },
  values: {
    title: "Values",
    text: "A third matrix turns every token into a value: what the token passes on when a query looks at it. The key decides whether a token is found, the value what it contributes.",
  },
  products: {
    title: "Dot products",
    text: "The query is compared with each key by their dot product: multiply dimension by dimension and add up. The dot product is large when both point the same way.",
  },
  additive: {
    title: "Score",
    text: "Bahdanau’s attention adds the query and the key, passes the sum through tanh and adds up the dimensions with learned weights. The result is one score for each source token.",
  },
  scale: {
    title: "Scale",
    text: "Dot products grow with the number of dimensions, which would make the softmax too sharp. Dividing by the square root of that number keeps them in a good range. If the model has a bias, it is added here.",
  },
  mask: {
    title: "Mask",
    text: "Hidden keys get a score of minus infinity. In a language model these are the later tokens, elsewhere padding.",
  },
  softmax: {
    title: "Softmax",
    text: "The exponential makes every score positive, and dividing by the sum makes them add up to 1. These are the attention weights that every other view draws.",
  },
  sum: {
    title: "Weighted sum",
    text: "Each value is multiplied by its weight, and the products are added. Values with large weights dominate the result.",
  },
  concatenation: {
    title: "Concatenation",
    text: "The results of all heads are put side by side. Underlines show which part comes from which head.",
  },
  projection: {
    title: "Output projection",
    text: "A last matrix combines the results of all heads into one vector of the model’s size.",
  },
  residual: {
    title: "Residual",
    text: "The result is added to the input vector, so the layer only has to learn what to change. This also lets gradients reach the first layer undiminished.",
  },
  norm: {
    title: "Norm",
    text: "The sum is normalized, then scaled and shifted by learned numbers. The next part of the layer always gets inputs of the same size.",
  },
};
