package simulated

import (
	"time"

	"poold/internal/provider/wire"
)

// report takes a verdict on a task, once; the code says why not.
func (b *books) report(key, id string, v wire.Verdict, at time.Time) (code string) {
	n, ok := wire.TaskNumber(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	if code := b.limits.admit(key, at); code != "" {
		return code
	}
	t := b.tasks[n]
	switch {
	case !ok:
		return wire.CodeIDFormat
	case t == nil:
		return wire.CodeUnknownTask
	case v.Fits != nil && !v.Fits(t.identity.Type): // the call is for other types
		return wire.CodeUnknownTask
	case t.failed || at.Before(t.due):
		return wire.CodeNotRecorded
	case t.report != "":
		return wire.CodeDuplicate
	}
	t.report = map[bool]string{true: "good", false: "bad"}[v.Good]
	return ""
}
