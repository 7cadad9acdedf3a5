// Package docs holds no code: its tests keep the documentation true. Every link
// leads somewhere, every Go block compiles or stands in a tested file, every
// policy loads, and every command that is shown exists with the flags shown.
package docs
