package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The log omits unknown times.
func TestLogOmitsUnknownTimes(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: readable}))
	log.Info("tasks", "until", time.Time{}, "retry_at", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "took", 90*time.Second)
	if !strings.HasSuffix(text.String(), "msg=tasks retry_at=2026-01-02T03:04:05.000Z took=1m30s\n") {
		t.Error(text.String())
	}
}
