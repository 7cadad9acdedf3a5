// Package process runs one plugin process: it starts the program, performs the
// handshake, connects, reads its logs and stops it, in bounded time whatever the
// plugin does. It knows nothing of configs, restarts and policies, which belong to
// package adapters/internal/host. The conformance kit uses this package alone.
//
// The transport is go-plugin's: gRPC over a unix socket, mutual TLS with
// certificates made for this one process. The process is run here rather than by
// go-plugin, because a plugin must not be able to harm its host:
//
//   - it gets no standard input and no file descriptor except a lifeline, which
//     reaches its end when the host dies; its environment is that of [Spec];
//   - it leads its own process group, which is killed as a whole when the leader
//     exits or must be stopped;
//   - its output is untrusted: secrets are redacted, control characters are
//     escaped, and the rate of lines and bytes is limited;
//   - a grandchild that keeps the output pipes open, or a stopped process, delays
//     [Process.Stop] by at most the grace period.
package process
