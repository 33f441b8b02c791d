package policy

import "time"

// Ceiling has the limits that bound the purchases of a target, however great the demand is.
type Ceiling struct {
	Depth   int           // maximum number of tokens and orders, besides orders for pending callers
	Waiting int           // maximum number of pending callers; each adds an order
	Threads int           // maximum number of tasks in flight
	Lead    time.Duration // shortest time from submit to token
	Usable  time.Duration // lifetime less margin
	Rate    float64       // maximum number of tokens handed out per second; 0 = no limit
}

// PerHour returns the maximum number of solves in an hour, with all threads busy all the time. If
// Rate is set, the solves are at most the tokens handed out, plus the whole depth as often as it
// can expire.
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

// ThreadsToKeep returns the mean number of tasks in flight that it takes to keep the given number
// of tokens without demand. Each token is replaced once per usable life.
func ThreadsToKeep(tokens int, lead, usable time.Duration) float64 {
	if usable <= 0 {
		return 0
	}
	return float64(tokens) * lead.Seconds() / usable.Seconds()
}
