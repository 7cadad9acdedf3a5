// Package logprob taps the HTTP traffic of a model provider for what its Go
// client throws away: log-probabilities of the answer's tokens, the HTTP status,
// Retry-After, the model that was really served, and whether a stream reached
// its end.
//
// langchaingo's OpenAI client neither asks for log-probabilities nor hands them
// over. The tap is an [http.RoundTripper], so it serves any client that lets its
// HTTP client be set:
//
//	tap := &logprob.Transport{}
//	model, err := openai.New(openai.WithHTTPClient(&http.Client{Transport: tap}))
//	ctx, capture := logprob.WithCapture(ctx, logprob.Options{TopLogProbs: 5})
//	answer, err := model.GenerateContent(ctx, messages)
//	tokens := capture.Choices()[0].LogProbs
//
// # Correlation
//
// The request carries the caller's context, so the tap finds the caller's
// [Capture] in it: calls that run at once never mix, and a request whose context
// has no capture is passed on untouched.
//
// # Streaming
//
// A streamed answer is parsed inside the client's own Read calls. There is no
// goroutine and no copy of the stream to wait for: when the client has returned,
// the capture is complete.
//
// # Servers that refuse
//
// Some servers answer 400 to a request for log-probabilities. The tap then sends
// the request once more without, and remembers it for that server and model.
package logprob
