package plugin

import "golang.org/x/sys/unix"

func duplicate(from, to int) error { return unix.Dup3(from, to, 0) }
