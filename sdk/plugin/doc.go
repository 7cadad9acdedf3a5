// Package plugin is the library for writing a stepfall plugin. A plugin is a separate program that
// estimates or verifies; stepfall starts it, calls it over gRPC and restarts it when it crashes.
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
// # What a plugin receives
//
// Its config as a struct, validated and with defaults filled in (package schema documents the tags).
// Every context carries [Log] for structured logs and [Models] for model calls through the host. The
// host sets a deadline on every call: pass ctx on, and return when it is done.
//
// # Failures
//
// A panic becomes the error of that call. Anything that any library prints on standard output goes to
// the log and cannot corrupt the protocol. When the host exits, the plugin and its children are killed.
//
// # Cleanup
//
// An estimator or verifier that implements io.Closer is closed before the process exits.
//
// # On the command line
//
// Run by hand, every plugin has the commands describe (JSON), docs (Markdown) and check CONFIG.json.
package plugin
