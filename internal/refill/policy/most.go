package policy

import "time"

// Ceiling has the limits that bound the purchases of a target at any demand.
type Ceiling struct {
	Depth   int           // the most tokens and orders, besides those for pending callers
	Waiting int           // the most pending callers; each adds an order
	Threads int           // tasks in flight at once
	Lead    time.Duration // the shortest time from submit to token
	Usable  time.Duration // lifetime less margin
	Rate    float64       // the most tokens handed out per second; 0 = no limit
}

// PerHour returns the most solves in an hour: all threads without a pause. With a rate, the solves are
// at most the tokens that are handed out, plus the whole depth as often as it can expire.
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

// ThreadsToKeep returns the mean number of tasks in flight that keep a number of tokens without demand:
// each token is replaced once in its usable life.
func ThreadsToKeep(tokens int, lead, usable time.Duration) float64 {
	if usable <= 0 {
		return 0
	}
	return float64(tokens) * lead.Seconds() / usable.Seconds()
}
