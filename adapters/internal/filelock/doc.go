// Package filelock takes file locks that end with the process.
package filelock
