package testkit

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Log collects the text that a daemon writes. A test may read the log at the same time. The zero
// value is an empty log.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends to the text.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns the number of lines that contain all the given words.
func (l *Log) Count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// Logger returns a logger that writes records of every level to the log, as text.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
