package policy

import "time"

// Ceiling is what bounds how much can be bought for a target, whoever asks how often.
type Ceiling struct {
	Depth   int           // the most ever kept and on order beside callers who wait
	Waiting int           // the most callers who wait, for each of whom one more is ordered
	Threads int           // tasks that may be under way at once
	Lead    time.Duration // the shortest time from submit to token
	Usable  time.Duration // lifetime less margin
	Rate    float64       // the most tokens handed out per second; 0 = no limit
}

// PerHour is the most solves in an hour: all tasks that may be under way, one after the
// other without a pause; with a rate not more than what is handed out, and the whole depth
// as often as it can die meanwhile.
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

// ThreadsToKeep is how many tasks are under way at a time, on average, to keep so many
// tokens that nobody takes: each is solved anew once in its usable life.
func ThreadsToKeep(tokens int, lead, usable time.Duration) float64 {
	if usable <= 0 {
		return 0
	}
	return float64(tokens) * lead.Seconds() / usable.Seconds()
}
