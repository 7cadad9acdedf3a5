//go:build race

package host_test

// raceDetector says that this binary needs more memory than the tests allow.
const raceDetector = true
