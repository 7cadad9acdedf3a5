// Package feature computes features of answers, prompts and runs for quality
// estimators. Every function is pure, needs no network and no model, and uses the
// standard library only.
//
// From log-probabilities (of the answer's tokens and their alternatives):
//
//   - [OfTokens]: perplexity, number of tokens, quantiles of the log-probabilities,
//     mean entropy and mean top probability, for answers in open form
//   - [Classes]: the distribution over the classes of a one-token answer, with its
//     [Entropy] and top probability, for classification
//   - [OfAnswer]: the features of [OfTokens] for the whole answer and for the
//     arguments of its tool calls
//
// From several answers to one query:
//
//   - [AnswerKey]: the canonical form by which equivalent answers are equal: tool
//     calls by their arguments, final answers by their fields or their text
//   - [JensenShannon]: the distance of two models' class distributions
//
// From the prompt, before any model has run:
//
//   - [NGrams]: its words and pairs of words, hashed into buckets
//
// The features are those of "A Unified Approach to Routing and Cascading for LLMs"
// (ICML 2025), section 5, and a few that its authors name as natural extensions.
package feature
