package purchase

import (
	"fmt"
	"time"
)

// Outage reports whether none of the providers can be asked, why, and when the first of
// them may be asked again (zero: unknown).
func Outage(providers []Status) (reason string, until time.Time, is bool) {
	if len(providers) == 0 {
		return "no provider is configured", time.Time{}, true
	}
	for _, p := range providers {
		if p.State.Kind.Usable() {
			return "", time.Time{}, false
		}
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	first := providers[0]
	return fmt.Sprintf("provider %s is %s: %s", first.Name, first.State.Kind, first.State.Reason), until, true
}
