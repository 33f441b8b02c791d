package policy

import (
	"math"
	"time"
)

const (
	// usualLead is the lead time in seconds that the constants of the policy were
	// found for. A target whose lead times differ from it by more than farFactor
	// has all of them stretched in proportion, leastScale to mostScale times.
	usualLead  = 18.0
	farFactor  = 1.7
	leastScale = 0.005
	mostScale  = 200.0

	// nearHorizon and midHorizon are the first two horizons of the table; the
	// third one is the usable life, but at least lifeLeast and at most lifeMost,
	// and lifeBeyond.
	nearHorizon = 20.0
	midHorizon  = 40.0
	lifeBeyond  = 20.0
	lifeLeast   = 40.0
	lifeMost    = 600.0
)

// knowledge is what was learned of demand and provider, whatever was bought. Times
// are in unix seconds; now is never before any that it was told of.
type knowledge struct {
	life  float64 // usable, of a token, in seconds; not saved
	scale float64
	start float64 // of the first event; 0 = none yet

	count   float64 // requests, decayed with countDecay, as of last
	last    float64 // time of the last request; 0 = none yet
	total   uint32  // requests, modulo 2^32
	busy    int     // bucket of count at the last request
	sampled float64 // time of the last sample of the table

	solves solves
	table  *table // nil unless Adaptive: a fixed depth needs no forecast
}

// newKnowledge is that of a target that has seen nothing.
func newKnowledge(p *Params) *knowledge {
	k := &knowledge{life: p.Usable.Seconds(), scale: 1}
	k.solves.fails = failPrior
	if p.Adaptive {
		k.table = new(table)
	}
	return k
}

// asked learns from a request that comes now.
func (k *knowledge) asked(now float64) {
	if k.table != nil && k.last > 0 {
		k.table.gaps.add(k.busy, (now-k.last)/k.scale)
	}
	k.count = k.countAt(now) + 1
	k.last = now
	k.total++
	k.busy = bucket(busyEdges[:], k.count)
	// Every sample waits for the last horizon, and only so many can.
	if k.table != nil && now-k.sampled >= k.scale*max(requestStep, k.ends()[horizons-1]/pendings) {
		k.sample(now)
	}
}

// countAt is the decayed count of requests.
func (k *knowledge) countAt(now float64) float64 {
	if k.last == 0 {
		return 0
	}
	return decayed(k.count, now-k.last, k.scale)
}

// decayed is what is left of a count after so many seconds.
func decayed(count, seconds, scale float64) float64 {
	return count * math.Exp(-seconds/(countDecay*scale))
}

// silence is how many seconds nobody has asked, from the first event on.
func (k *knowledge) silence(now float64) float64 { return now - max(k.last, k.start) }

// ends are the horizons of the table in scaled seconds.
func (k *knowledge) ends() [horizons]float64 {
	return [horizons]float64{nearHorizon, midHorizon, min(max(k.life/k.scale, lifeLeast), lifeMost) + lifeBeyond}
}

// catchUp brings the table to the time: samples are noted while nobody asks, and
// what came of earlier ones is written down. A wake-up that came late, or a
// hundred too many, change nothing: the samples are at the same moments.
func (k *knowledge) catchUp(now float64) {
	if k.start == 0 {
		k.start = now
	}
	if k.last == 0 || k.table == nil {
		return
	}
	ends := k.ends()
	// In the last bucket of silence there is nothing to be learned that is not
	// known, and a gap of a month must not take a month's samples to catch up.
	until := min(now, k.last+silenceEdges[silences-2]*k.scale)
	for {
		step := quietStep
		if k.sampled-k.last > lateAfter*k.scale {
			step = lateStep
		}
		next := k.sampled + step*k.scale
		if next > until {
			break
		}
		k.table.settle(next, k.total, &ends, k.scale)
		k.sample(next)
	}
	k.table.settle(now, k.total, &ends, k.scale)
}

// sample notes the situation at a moment that is not before the last request.
func (k *knowledge) sample(at float64) {
	silence := (at - k.last) / k.scale
	shape := 2*k.count*math.Exp(-silence/countDecay) + fallbackPrior
	k.table.note(at, shape, k.total, situation(silence, k.busy))
	k.sampled = at
}

// fit brings the lead times in order, guess where none is known, and looks whether they
// are far from those that the time constants are for. If so, these are stretched, and
// the table, whose times they are, begins anew.
func (k *knowledge) fit(now float64, guess time.Duration) (stretched bool) {
	k.solves.sort(guess)
	if k.start > 0 && k.solves.n < solvesToWait {
		return false // a few among guesses say little
	}
	ideal := k.solves.quantile(0.5) / usualLead
	if ideal <= 0 {
		return false
	}
	ideal = min(max(ideal, leastScale), mostScale)
	if far := k.scale / ideal; far <= farFactor && far >= 1/farFactor {
		return false
	}
	k.count = min(k.countAt(now)*ideal/k.scale, mostCount) // so many are in the new time constant
	k.scale = ideal
	if k.table != nil {
		k.table = new(table)
	}
	k.sampled = now
	return true
}
