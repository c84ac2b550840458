export const enSteps = {
  embedding: {
    title: "Embedding",
    text: "Each token of the vocabulary has a row of learned numbers, its embedding. The token’s id selects the row.",
  },
  patch: {
    title: "Patch",
    text: "The colours of a patch’s pixels become a vector by a learned matrix. Token 0, [CLS], has a learned vector of its own; it stands for the whole picture.",
  },
  embeddingScale: {
    title: "Scale of the embedding",
    text: "This model multiplies embeddings by the square root of their size, so that they are as large as the position vectors.",
  },
  position: {
    title: "Position",
    text: "Attention by itself does not know the order of tokens. In this model each position has a vector p, which is added to the embedding; u, if there is one, marks the sentence of a pair.",
  },
  types: {
    title: "Sentence",
    text: "A learned vector u for the first or the second sentence of a pair is added to the embedding.",
  },
  embeddingNorm: { title: "Norm of the embedding", text: "The sum is normalized before the first layer." },
  steering: {
    title: "Steering",
    text: "In this run, the direction δ is added to x, the result of the step above, at every place. The steps below continue with x′. The view “Steer” sets the direction.",
  },
  layersBefore: {
    title: "Layers before",
    text: "The layers before this one have changed the vector. Select an earlier layer to follow their steps.",
  },
  otherAttention: {
    title: "The layer’s other attention",
    text: "A decoder’s layer attends twice: to the target so far, and to the source. This step is the other one of the two, as a whole; select it under “Layer” to follow its steps.",
  },
  normFirst: {
    title: "Norm",
    text: "The vector is normalized before it is used, then scaled by γ and shifted by β where the model has them. This keeps deep stacks stable.",
  },
  query: {
    title: "Query",
    text: "A learned matrix turns the vector into a query: what this token is looking for. Each head has its own matrix, so each head looks for something different.",
  },
  queryNorm: { title: "Norm of the query", text: "This model normalizes the query, and each key, within the head." },
  rotation: {
    title: "Rotation",
    text: "This model has no position vectors. It rotates pairs of the query’s and key’s numbers by an angle that grows with the position, each pair at its own frequency. Their dot product then depends on the distance between the tokens.",
  },
  keys: {
    title: "Keys",
    text: "Another matrix turns every token into a key: what the token offers to a query. Each row below is a key, as the query meets it.",
  },
  values: {
    title: "Values",
    text: "Each token also has a value: what the token passes on when a query looks at it. The key decides whether a token is found, the value what it contributes.",
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
    text: "Dot products grow with the number of dimensions, which would make the softmax too sharp. A constant factor keeps them in a good range.",
  },
  softcap: { title: "Soft cap", text: "tanh keeps the scores between −cap and +cap, without a sharp edge." },
  relative: {
    title: "Relative position",
    text: "This model has no position vectors. Each head adds a learned number to the score instead, which depends only on the distance between the query and the key.",
  },
  alibi: {
    title: "Distance",
    text: "This model has no position vectors. Each head lowers the score in proportion to the distance between the query and the key (ALiBi).",
  },
  mask: {
    title: "Mask",
    text: "Keys that the query may not see get a score of minus infinity: later tokens if the mask is causal, tokens outside the window if there is one, and tokens that you have hidden.",
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
    text: "The result is added to the vector that the part started from, so the part only has to learn what to change.",
  },
  norm: {
    title: "Norm",
    text: "The sum is normalized, then scaled by γ and shifted by β where the model has them. The next part always gets inputs of the same size.",
  },
  activation: {
    title: "Feed-forward network",
    text: "Every token passes by itself through a small network: a matrix turns the vector into another one, usually longer, and a non-linear function keeps some of its numbers and suppresses others.",
  },
  feedForward: { title: "Feed-forward network, output", text: "A second matrix brings the vector back to the model’s size." },
  layersAfter: { title: "Layers after", text: "The remaining layers do the same, each with its own learned matrices." },
  finalNorm: { title: "Final norm", text: "After the last layer the vector is normalized once more." },
  memory: {
    title: "Memory",
    text: "The encoder’s result for this source token. The decoder’s cross-attention makes its keys and values from it; select a cross-attention to follow them to the prediction.",
  },
  nextState: {
    title: "State",
    text: "The recurrent network reads the last token and its own state before, and with Bahdanau’s attention the weighted sum; the result is its new state s′.",
  },
  readout: { title: "Read-out", text: "State, weighted sum and last token are combined into one vector." },
  text: {
    title: "Vector of the whole text",
    text: "The classifier reads one vector: the mean of all tokens’ vectors, or the vector of the first token.",
  },
  pooler: { title: "Pooler", text: "One more layer before the classifier." },
  outputScale: { title: "Scale of the output", text: "This model divides by the square root of the size before its output layer." },
  maskedLayer: { title: "Layer for masked words", text: "The part of the model that predicts masked words begins with one more layer." },
  maskedNorm: { title: "Norm", text: "The result is normalized before the output layer." },
  logits: {
    title: "Logits",
    text: "The dot product with the row of the output matrix for a token, or label, is its logit. A larger logit means a more likely token.",
  },
  probability: {
    title: "Probability",
    text: "The softmax over all logits gives the probability of each token, or label. The sum in the denominator includes those that are not shown.",
  },
  sigmoid: { title: "Probability", text: "Each label has a probability of its own; they need not add up to 1." },
};
