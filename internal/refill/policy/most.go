package policy

import "time"

// Ceiling contains the limits on the purchases of a target, however high the demand is.
type Ceiling struct {
	Depth   int           // maximum number of tokens and orders, besides orders for pending callers
	Waiting int           // maximum number of pending callers; each causes one more order
	Threads int           // maximum number of tasks in flight
	Lead    time.Duration // shortest time from submit to token
	Usable  time.Duration // lifetime less margin
	Rate    float64       // maximum number of tokens handed out per second; 0 = no limit
}

// PerHour returns the maximum number of solves in an hour, if all threads are always busy. If Rate
// is set, the result is also at most the number of tokens that can be handed out in an hour plus
// the number that can expire in an hour. In one usable life, at most Depth tokens can expire.
func (c Ceiling) PerHour() float64 {
	if c.Lead <= 0 || c.Usable <= 0 {
		return 0
	}
	hour := time.Hour.Seconds()
	most := float64(min(c.Threads, c.Depth+c.Waiting)) * hour / c.Lead.Seconds()
	if c.Rate > 0 {
		most = min(most, c.Rate*hour+float64(c.Depth)*hour/c.Usable.Seconds())
	}
	return most
}

// ThreadsToKeep returns the mean number of tasks in flight that are needed to keep this number of
// tokens without demand. Each token is replaced once per usable life.
func ThreadsToKeep(tokens int, lead, usable time.Duration) float64 {
	if usable <= 0 {
		return 0
	}
	return float64(tokens) * lead.Seconds() / usable.Seconds()
}
