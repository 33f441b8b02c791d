// Package panics recovers from panics in goroutines, so that a panic does not end the daemon.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// ErrFault means that the function passed to Contain panicked.
var ErrFault = errors.New("internal fault, see the log")

// Contain calls the function do. If this function panics, Contain logs the message with the cause and
// the stack, and returns ErrFault.
func Contain(log *slog.Logger, message string, do func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			Log(log, message, cause)
			err = ErrFault
		}
	}()
	do()
	return nil
}

// Log logs a panic that the caller recovered from.
func Log(log *slog.Logger, message string, cause any, attributes ...any) {
	log.With(attributes...).Error(message, "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
}
