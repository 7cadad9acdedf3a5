// Package programs builds the command and the plugins for tests that run them as their users do. Linking one takes
// seconds, so each is linked once for all tests, in bin/ of the clone like make build.
package programs
