package testkit

import (
	"os/signal"
	"syscall"
	"testing"
)

// WithFullDisk calls the function `do` while a file can have at most one byte. A longer write fails
// with EFBIG.
func WithFullDisk(t testing.TB, do func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // otherwise the signal that the write causes would end the process
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	defer func() { NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }()
	NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: before.Max}))
	do()
}
