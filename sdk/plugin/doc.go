// Package plugin is what the author of a stepfall plugin imports. A plugin is a
// program of its own that estimates or verifies; stepfall starts it, talks to it
// over gRPC and restarts it when it breaks.
//
//	type Config struct {
//		Words int `stepfall:"words,min=1,default=10" doc:"Fewest words of a good answer."`
//	}
//
//	func New(_ context.Context, c Config) (sdk.Verifier, error) {
//		return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
//			...
//		}), nil
//	}
//
//	func main() {
//		plugin.Main(plugin.Plugin{
//			Name: "verifier-length", Version: "1.0.0", Doc: "Counts words.",
//			Roles: []plugin.Role{plugin.Verifier(New)},
//		})
//	}
//
// # What a plugin gets
//
// Its config, checked and with defaults, as a struct (package schema has the
// tags). In every context: [Log] for structured logs, [Models] to ask a model
// through the host.
// The host gives every call a deadline; pass ctx on and return when it ends.
//
// # What happens when it goes wrong
//
// A panic becomes an error of that call. What is printed on standard output, by
// any library, goes to the log and cannot disturb the protocol. When the host is
// gone, the plugin and all its children are killed.
//
// # What may be added
//
// A value that implements io.Closer is closed before the process ends.
//
// # From a shell
//
// Started by hand, every plugin answers describe (JSON), schema (JSON), docs
// (Markdown), check CONFIG.json, and debug, which serves under a debugger and
// prints what makes stepfall use it.
package plugin
