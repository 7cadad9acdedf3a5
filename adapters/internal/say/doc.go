// Package say holds the wording that the command and the pages share.
package say
