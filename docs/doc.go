// Package docs holds no code: its tests keep the documentation true. Every link
// leads somewhere, every Go block compiles or stands in a tested file, every
// policy loads, every command that is shown exists with the flags shown, and the
// walks of a newcomer print what new-user-log.md says.
package docs
