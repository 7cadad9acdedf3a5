// Package process runs one plugin process: it starts the program, shakes hands,
// connects, reads its logs and ends it, in bounded time whatever state the plugin
// is in. It knows nothing of configs, restarts and policies; package
// adapters/internal/host does, and the conformance kit uses this package alone.
//
// The transport is go-plugin's (gRPC over a unix socket, mutual TLS with
// certificates made for this one process). The process itself is run here rather
// than by go-plugin, because a plugin must not be able to hurt its host:
//
//   - it gets no standard input and no file descriptor but a lifeline, which
//     ends when the host dies; its environment is what [Spec] says;
//   - it leads a process group of its own, which is killed as a whole when the
//     leader ends and when it must;
//   - what it prints is parsed here; a line may be anything. Secrets are
//     replaced, control characters are escaped, floods are cut;
//   - a grandchild that holds on to the output pipes, or a stopped process, delays
//     [Process.Stop] by the grace period at most.
package process
