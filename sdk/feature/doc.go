// Package feature measures answers: numbers that a quality estimator can learn
// from. Every function is pure, needs no network and no model, and uses the
// standard library only.
//
// From log-probabilities (of the answer's tokens and their alternatives):
//
//   - [OfTokens]: perplexity, number of tokens, quantiles of the log-probabilities,
//     mean entropy and mean top probability, for answers in open form
//   - [Classes]: the distribution over the classes of a one-token answer, with its
//     [Entropy] and top probability, for classification
//   - within: the tokens of one part of the answer, for instance the arguments
//     of a tool call, to be weighted on their own
//
// From several answers to one query:
//
//   - [AnswerKey]: the form in which two answers that say the same are equal: tool
//     calls by their arguments, final answers by their fields or their text
//   - [JensenShannon]: how far two models' class distributions are apart
//
// From the prompt, before any model has run:
//
//   - [NGrams]: its words and pairs of words, hashed into buckets
//
// The features are those of "A Unified Approach to Routing and Cascading for LLMs"
// (ICML 2025), section 5, and a few that its authors name as natural extensions.
package feature
