// Package plugintest tests plugins: in process, for an author's unit tests, and
// as programs in any language, for conformance.
//
//	func TestVerifier(t *testing.T) {
//		v := plugintest.Verifier(t, thePlugin(), map[string]any{"words": 3})
//		verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{...})
//	}
//
// [Verifier], [QualityEstimator] and [CostEstimator] serve a plugin.Plugin over a
// real gRPC connection, so that what the test sees is what a host would.
//
// [Run] starts a plugin program many times and checks what the protocol asks of
// it: handshake, versions, schema, diagnostics, long queries, cancellation,
// concurrency, crashes, shutdown. [Test] does so in a Go test, and the command
// `stepfall plugin check --conformance PROGRAM` for everybody else. What the plugin
// starts ends with it, as under a host, in programs that call jail.Main: [Main] does.
package plugintest
