package redact

import "regexp"

// passwords matches the password in an address, up to the last "@" before a path, since not everybody escapes one, and
// the parameter that PostgreSQL also reads it from.
var passwords = regexp.MustCompile(`(://[^\s/?#@"'<>:]*:)[^\s/"'<>]+(@)|([?&]password=)[^\s&#"'<>]+`)

// Addresses returns the text with xxxxx for each password in an address, such as postgres://user:password@host/name. It
// keeps everything else, so it is for messages that the operator of that address reads.
func Addresses(text string) string { return passwords.ReplaceAllString(text, "${1}${3}xxxxx${2}") }
