// Package jail runs a program that nobody trusts on a copy-on-write view of a
// work tree, and leaves nothing behind.
//
// # One run
//
// [Open] probes what the machine offers. [Jail.Run] starts the program's own
// binary again as a small first process (see [Main]), which builds the walls,
// puts the candidate's changes into the tree, starts the command, waits, kills
// whatever is left and hands back a report over a pipe that the command never
// held. The tree on disk is not written to: in a mount namespace an overlay in
// memory takes the writes and vanishes with the namespace, also when the program
// is killed. With [Spec.InPlace] the writes to the tree stay: that is how an agent
// works in a tree of its own.
//
// # Layers
//
// A run reports which layers held ([Result.Layers]) and which were wanted and
// not to be had, with the reason ([Result.Missing]). What is missing is never
// silently done without: the caller decides by [Lacks].
//
//	user       another uid, or a user namespace, without any capability
//	pid        a pid namespace: no process outlives its run, setsid or not
//	mount      an own root with only the toolchains, read-only, and the tree
//	network    an own network with nothing but its loopback; without namespaces, no sockets
//	ipc        own System V and POSIX message queues
//	landlock   the same paths again, enforced by Landlock
//	seccomp    no mounts, namespaces, tracing, keys, BPF, odd socket families
//	rlimits    limits for each process: CPU time, data, file size, open files
//	watchdog   limits for the whole run: memory, processes, wall time, what it writes to disk
//	cgroup     the same limits again, enforced by a cgroup v2
//
// # Programs that stay
//
// [Jail.Start] starts an [exec.Cmd] within walls, a plugin for instance: kept
// together and within limits or, with [Confinement].Sandbox, behind all layers. It returns
// when the program has begun and says which layers hold.
//
//	confined, err := j.Start(ctx, command, &jail.Confinement{Sandbox: true, Require: []string{"filesystem"}})
//	...
//	err = command.Wait()
//	confined.Close()
//
// Without namespaces (a container that refuses them) the tree is copied to a
// temporary directory, and Landlock, seccomp and the limits still hold.
package jail
