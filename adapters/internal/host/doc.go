// Package host finds, checks, starts and supervises plugins, and presents each
// configured one as what it is for: an [sdk.Verifier], an [sdk.QualityEstimator]
// or an [sdk.CostEstimator].
//
//	h, err := host.New(host.Config{Logger: log})
//	...
//	defer h.Close()
//	tests, err := h.Verifier("tests", "verifier-tests", map[string]any{
//		"command": []string{"go", "test", "./..."},
//	})
//	verdict, err := tests.Verify(ctx, req)
//
// # Life of an instance
//
// An instance is one role of one plugin with one config, in a process of its own.
// The process is started by the first call that needs it; calls that come
// meanwhile wait for the same start. When the process ends by itself, or does not
// answer any more and is killed, the next call starts another one: at once after
// the first time, then after a growing pause, and not at all for a while after
// five crashes in a minute. A call that finds the instance down fails at once with
// an unavailableError; the pause is never the caller's.
//
// Every call has a deadline. A call of an estimator that lost its process is
// repeated once, since estimates have no effects; a verification never is.
//
// # Trust
//
// A plugin is the operator's choice and runs with the rights of the host; the
// host protects itself from a plugin's defects, not from its malice. It gets a
// clean environment (no API keys), no standard input, and mutual TLS on a socket in
// a private folder. Where the program calls jail.Main (package sdk/jail) first of all, whatever a
// plugin starts ends with it and with the host, and PluginConfig.Isolation "sandbox" takes
// the network and foreign files away. With PluginConfig.SHA256, only the program runs that
// the operator has recorded.
package host
