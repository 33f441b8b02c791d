package testkit

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// WithFiles calls the function `do` while this process can open only n more files. Opening one more
// file fails with EMFILE. No other goroutine may open files at the same time.
func WithFiles(t testing.TB, n int, do func()) {
	t.Helper()
	file, err := os.Open(os.DevNull) // starts the poller of the runtime, which opens files too
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	// The system gives a new file the lowest free number below the limit.
	limit := uintptr(0)
	for ; n >= 0; limit++ {
		if _, _, fault := syscall.Syscall(syscall.SYS_FCNTL, limit, syscall.F_GETFD, 0); fault == syscall.EBADF {
			n--
		}
	}
	withLimit(t, syscall.RLIMIT_NOFILE, uint64(limit-1), do)
}

// withLimit calls the function `do` while this process has a lower limit for a resource.
func withLimit(t testing.TB, resource int, limit uint64, do func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(resource, &before); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(resource, &before); err != nil {
			t.Fatal(err)
		}
	}()
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	do()
}

// WithFullDisk calls the function `do` while a file can have at most one byte. A longer write fails
// with EFBIG.
func WithFullDisk(t testing.TB, do func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // otherwise the signal that the write causes would end the process
	defer signal.Reset(syscall.SIGXFSZ)
	withLimit(t, syscall.RLIMIT_FSIZE, 1, do)
}
