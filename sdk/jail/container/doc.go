// Package container runs commands in containers, with the command line of Docker or
// Podman, in place of the isolation of package jail: for stronger isolation if the
// engine has it (gVisor's runsc), and for tests that expect to run in a published
// image.
//
// [Engine.Run] takes the jail's own specification. It copies the work tree in, applies
// the changes, runs the command without network and capabilities and within cgroup
// limits, and copies the reports out. The container is always removed: it ends when
// this process does, and the next [Open] removes what a killed process left.
package container
