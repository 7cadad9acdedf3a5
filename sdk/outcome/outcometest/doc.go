// Package outcometest finds the recorded outcomes that the project's tests use. They
// are third-party data and not part of the repository: the environment variable
// STEPFALL_DATA names their folder, and the default is ../shared/data relative to the
// repository. Tests are skipped if they are absent.
package outcometest
