// Package filelock takes locks of files that end with the process that has them.
package filelock
