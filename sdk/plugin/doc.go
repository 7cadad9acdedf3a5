// Package plugin is the library for writing a stepfall plugin. A plugin is a separate program that
// estimates or verifies; stepfall starts it, talks to it over gRPC and restarts it when it breaks.
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
// Its config as a struct, checked and with defaults filled in (package schema describes the tags).
// Every context carries [Log] for structured logs, and [Models] to ask a model through the host. The
// host sets a deadline on every call; pass ctx on and return when it ends.
//
// # Failures
//
// A panic becomes an error of that call. Anything printed on standard output, by any library, goes to
// the log and cannot disturb the protocol. When the host is gone, the plugin and its children are
// killed.
//
// # Cleanup
//
// An estimator or verifier that implements io.Closer is closed before the process ends.
//
// # On the command line
//
// Every plugin has the commands describe (JSON), schema (JSON), docs (Markdown), check CONFIG.json,
// and debug, which serves under a debugger and prints the settings that make stepfall use it.
package plugin
