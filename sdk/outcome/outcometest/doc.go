// Package outcometest finds the real outcomes that the project's tests measure on.
// They are other people's data and no part of the repository: the environment
// variable STEPFALL_DATA names their folder, or else they are looked for in
// ../shared/data beside the repository. Tests are skipped where they are absent.
package outcometest
