// Package jail runs an untrusted program on a copy-on-write view of a work tree,
// and leaves nothing behind.
//
// # One run
//
// [Open] probes which isolation layers the machine supports. [Jail.Run] starts the
// program's own binary again as a small first process (see [Main]). It sets up the
// layers, applies the candidate's changes to the tree, starts the command, waits
// for it, kills whatever is left, and returns a report over a pipe that the command
// never has access to. The tree on disk is not written to: in a mount namespace, an
// overlay in memory takes the writes and vanishes with the namespace, even if the
// program is killed. With [Spec.InPlace] the writes to the tree persist, for an
// agent that works in a tree of its own.
//
// # Layers
//
// A run reports the layers that were active ([Result.Layers]) and those that were
// unavailable, with the reason ([Result.Missing]). A layer is never dropped
// silently: the caller decides with [Lacks].
//
//	user       another uid, or a user namespace, without any capability
//	pid        a pid namespace: no process outlives its run, not even after setsid
//	mount      a new root with only the tree and the toolchains, read-only
//	network    a network namespace with only a loopback; without namespaces, no sockets
//	ipc        separate System V and POSIX message queues
//	landlock   the same paths again, enforced by Landlock
//	seccomp    no mounts, namespaces, tracing, keys, BPF, unusual socket families
//	rlimits    limits per process: CPU time, data, file size, open files
//	watchdog   limits for the whole run: memory, processes, wall time, bytes written to disk
//	cgroup     the same limits again, enforced by a cgroup v2
//
// # Long-lived programs
//
// [Jail.Start] starts an [exec.Cmd], a plugin for instance, whose processes are kept
// together and within limits or, with [Confinement].Sandbox, isolated by all layers.
// It returns when the program has started and reports the active layers.
//
//	confined, err := j.Start(ctx, command, &jail.Confinement{Sandbox: true, Require: []string{"filesystem"}})
//	...
//	err = command.Wait()
//	confined.Close()
//
// Without namespaces (in a container that does not allow them) the tree is copied to
// a temporary directory; Landlock, seccomp and the limits still apply.
package jail
