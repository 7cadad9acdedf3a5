// Package say holds the words in which the command and the viewer say the same.
package say
