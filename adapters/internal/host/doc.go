// Package host finds, checks, starts and supervises plugins, and presents each
// configured one as an [sdk.Verifier], an [sdk.QualityEstimator] or an
// [sdk.CostEstimator].
//
//	h, err := host.New(host.Config{Logger: log})
//	...
//	defer h.Close()
//	tests, err := h.Verifier("tests", "verifier-tests", map[string]any{
//		"command": []string{"go", "test", "./..."},
//	})
//	verdict, err := tests.Verify(ctx, req)
//
// # Lifecycle of an instance
//
// An instance is one role of one plugin with one config, in its own process. The
// first call starts the process; concurrent calls wait for the same start. If the
// process exits, or hangs and is killed, the next call starts another one: at once
// after the first crash, then after an exponentially growing pause, and not at all
// for a while after five crashes in a minute. A call during a pause does not wait
// but fails with an unavailableError.
//
// Every call has a deadline. An estimator call whose process was lost is retried
// once, since estimates are idempotent; a verification is never retried.
//
// # Trust
//
// The operator chooses the plugins, which run with the host's rights. The host
// protects itself from a plugin's defects, not from malice. A plugin gets a clean
// environment (no API keys), no standard input, and mutual TLS on a socket in a
// private directory. If the host's program calls jail.Main (package sdk/jail) first,
// a plugin's child processes end with it and with the host, and
// PluginConfig.Isolation "sandbox" removes access to the network and to unrelated
// files. With PluginConfig.SHA256, only a program with that checksum is run.
package host
