package worth

import (
	"math"
	"time"
)

const (
	// Leads counts lead times in bins. The first bin ends at firstBin; each other bin ends at
	// binRatio times the end of the bin before.
	firstBin = 0.05 // seconds
	binRatio = 1.15
	bins     = 80 // the last bin begins at about an hour
	// leadMemory is the number of lead times whose weight is at least 1/e.
	leadMemory = 40
	// The test for a change of the lead times assumes that their logarithms have at least the standard
	// deviation leastSpread. It decides between no change and a change by the factor shift.
	leastSpread = 0.4
	shift       = 2.0
	// newest is the number of lead times that a change can keep.
	newest = 12
	// leastLeads is the weight of the lead times from which the test runs. The mean of fewer lead times is
	// too uncertain: the test would take an unusual first lead time for a change.
	leastLeads = 5
)

// Leads estimates the distribution of lead times. The zero value knows no lead time.
type Leads struct {
	weight [bins]float64
	total  float64

	logs, squares  float64 // decayed sums of the logarithms and of their squares
	slower, faster trend
	last           [newest]int // bins of the last lead times, oldest first
}

// trend is a sequential test for a change of the lead times in one direction.
type trend struct {
	ratio float64 // log likelihood ratio of the change against no change; at least 0
	leads int     // lead times since the ratio was 0
}

// Add adds the lead time of a successful solve. It returns true if the lead times have changed
// suddenly, so that only the lead times since the change count.
func (l *Leads) Add(lead time.Duration) (changed bool) {
	bin := binOf(lead.Seconds())
	copy(l.last[:], l.last[1:])
	l.last[newest-1] = bin
	x := math.Log(middles[bin])
	if l.total >= leastLeads {
		mean := l.logs / l.total
		spread := max(leastSpread, math.Sqrt(max(0, l.squares/l.total-mean*mean)))
		slow, fast := l.slower.add((x-mean)/spread, math.Log(shift)/spread), l.faster.add((mean-x)/spread, math.Log(shift)/spread)
		switch {
		case slow:
			l.restart(l.slower.leads)
			return true
		case fast:
			l.restart(l.faster.leads)
			return true
		}
	}
	l.add(bin)
	return false
}

// add adds a lead time, in standard deviations from the mean, and reports whether the lead times have
// changed by the given number of standard deviations.
func (t *trend) add(deviation, change float64) bool {
	t.ratio += change * (deviation - change/2)
	t.leads++
	if t.ratio <= 0 {
		*t = trend{}
	}
	return t.ratio >= decides
}

func (l *Leads) add(bin int) {
	fade := math.Exp(-1.0 / leadMemory)
	for i := range l.weight {
		l.weight[i] *= fade
	}
	x := math.Log(middles[bin])
	l.total, l.logs, l.squares = l.total*fade+1, l.logs*fade+x, l.squares*fade+x*x
	l.weight[bin]++
}

// restart keeps only the last n lead times.
func (l *Leads) restart(n int) {
	last := l.last
	*l = Leads{last: last}
	for _, bin := range last[newest-min(n, newest):] {
		l.add(bin)
	}
}

func binOf(seconds float64) int {
	if seconds <= firstBin {
		return 0
	}
	return min(bins-1, 1+int(math.Log(seconds/firstBin)/math.Log(binRatio)))
}

// middles contains the geometric middle of each bin in seconds.
var middles = func() (list [bins]float64) {
	for i := range list {
		list[i] = firstBin * math.Pow(binRatio, float64(i)-0.5)
	}
	return list
}()

// Known reports whether there was a lead time.
func (l *Leads) Known() bool { return l.total > 0 }

// Quantile returns the quantile f of the lead times; 0 if no lead time is known.
func (l *Leads) Quantile(f float64) time.Duration {
	left, last := f*l.total, 0.0
	for i, w := range l.weight {
		if w == 0 {
			continue
		}
		last = middles[i]
		if left -= w; left <= 0 {
			break
		}
	}
	// If f is 1, rounding can leave a small rest after the last bin.
	return time.Duration(last * float64(time.Second))
}

// Mean returns the mean lead time in seconds; 0 if no lead time is known.
func (l *Leads) Mean() float64 {
	if !l.Known() {
		return 0
	}
	return l.beyond(0)
}

// beyond returns the mean of the seconds by which a lead time exceeds the given limit.
func (l *Leads) beyond(limit float64) (seconds float64) {
	for i, w := range l.weight {
		seconds += w * max(0, middles[i]-limit)
	}
	return seconds / l.total
}

// LeadsOf returns the distribution of the given lead times, all with the same weight.
func LeadsOf(leads []time.Duration) *Leads {
	l := new(Leads)
	for _, lead := range leads {
		l.weight[binOf(lead.Seconds())]++
		l.total++
	}
	return l
}
