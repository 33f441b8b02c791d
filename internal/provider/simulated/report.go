package simulated

import (
	"time"

	"poold/internal/provider/wire"
)

// verdict is a caller's word on a token.
type verdict struct {
	wire.Verdict

	key, id string
}

// word is how the ledger names it.
func (v verdict) word() string {
	if v.Good {
		return "good"
	}
	return "bad"
}

// report takes a verdict, once a task; the code says why not.
func (b *books) report(v verdict, at time.Time) (code string) {
	n, ok := wire.TaskNumber(v.id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	if code := b.limits.admit(v.key, at); code != "" {
		return code
	}
	t := b.tasks[n]
	switch {
	case !ok:
		return wire.CodeIDFormat
	case t == nil:
		return wire.CodeUnknownTask
	case v.Fits != nil && !v.Fits(t.identity.Type): // to this call there is no such task
		return wire.CodeUnknownTask
	case t.failed || at.Before(t.due):
		return wire.CodeNotRecorded
	case t.report != "":
		return wire.CodeDuplicate
	}
	t.report = v.word()
	return ""
}
