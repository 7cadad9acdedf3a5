//go:build race

package jail_test

// raceDetector says that this binary needs more memory than the tests allow.
const raceDetector = true
