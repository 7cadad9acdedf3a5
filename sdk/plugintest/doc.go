// Package plugintest tests plugins: in process, for an author's unit tests, and
// as programs in any language, for conformance.
//
//	func TestVerifier(t *testing.T) {
//		v := plugintest.Verifier(t, thePlugin(), map[string]any{"words": 3})
//		verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{...})
//	}
//
// [Verifier], [QualityEstimator] and [CostEstimator] serve a plugin.Plugin over a
// real gRPC connection, so a test sees what a host would.
//
// [Run] starts a plugin program many times and checks its conformance to the
// protocol: handshake, versions, schema, diagnostics, long queries, cancellation,
// concurrency, crashes, shutdown. [Test] runs the same checks in a Go test, and the
// command `stepfall plugin check --conformance PROGRAM` runs them for any program.
// In programs that call jail.Main, as [Main] does, the plugin's child processes end
// with it, as under a host.
package plugintest
