// Package container runs commands in containers of Docker or Podman, by their
// commands, where package jail would run them behind walls of its own: a stronger
// wall where the engine has one (gVisor's runsc), and the ground on which tests with
// a published image expect to run.
//
// [Engine.Run] takes the jail's own specification. The work tree is copied in, the
// changes are made, the command runs without a network, without capabilities and
// within the limits of a cgroup, the reports are copied out, and the container is
// gone, whatever happens: it ends when this process does, and what a killed process
// left is removed by the next [Open].
package container
