package policy

import (
	"math"
	"time"
)

const (
	// usualLead is the lead time in seconds for which the policy's constants are calibrated. If a
	// target's median lead time changes by more than the factor farFactor, the constants are scaled
	// in proportion. The scale is between leastScale and mostScale.
	usualLead  = 18.0
	farFactor  = 1.7
	leastScale = 0.005
	mostScale  = 200.0

	// nearHorizon and midHorizon are the first two horizons of the table. The third horizon is the
	// usable life, limited to the range from lifeLeast to lifeMost, plus lifeBeyond.
	nearHorizon = 20.0
	midHorizon  = 40.0
	lifeBeyond  = 20.0
	lifeLeast   = 40.0
	lifeMost    = 600.0
)

// knowledge is the learned part of a State: the demand, and the solves of the provider. Placing an
// order does not change it. Times are in Unix seconds and never decrease.
type knowledge struct {
	life  float64 // usable life of a token in seconds; not saved
	scale float64
	start float64 // time of the first event; 0 = no event yet

	count   float64 // number of requests at the time last, decayed with countDecay
	last    float64 // time of the last request; 0 = no request yet
	total   uint32  // number of requests, modulo 2^32
	busy    int     // bucket of count at the last request
	sampled float64 // time of the last sample of the table

	solves solves
	table  *table // nil for a fixed depth, which needs no forecast
}

func newKnowledge(p *Params) *knowledge {
	k := &knowledge{life: p.Usable.Seconds(), scale: 1}
	k.solves.fails = failPrior
	if p.Adaptive {
		k.table = new(table)
	}
	return k
}

func (k *knowledge) asked(now float64) {
	if k.table != nil && k.last > 0 {
		k.table.gaps.add(k.busy, (now-k.last)/k.scale)
	}
	k.count = k.countAt(now) + 1
	k.last = now
	k.total++
	k.busy = bucket(busyEdges[:], k.count)
	// A sample is pending until its last horizon has passed. The interval between samples limits
	// the number of pending samples to the constant pendings.
	if k.table != nil && now-k.sampled >= k.scale*max(requestStep, k.ends()[horizons-1]/pendings) {
		k.sample(now)
	}
}

func (k *knowledge) countAt(now float64) float64 {
	if k.last == 0 {
		return 0
	}
	return decayed(k.count, now-k.last, k.scale)
}

// decayed returns what is left of a count after the given number of seconds.
func decayed(count, seconds, scale float64) float64 {
	return count * math.Exp(-seconds/(countDecay*scale))
}

// silence returns the seconds since the last request; before any request, the seconds since the first
// event.
func (k *knowledge) silence(now float64) float64 { return now - max(k.last, k.start) }

func (k *knowledge) ends() [horizons]float64 {
	return [horizons]float64{nearHorizon, midHorizon, min(max(k.life/k.scale, lifeLeast), lifeMost) + lifeBeyond}
}

// catchUp brings the table up to date: it adds samples of the silence and settles earlier samples.
// The times of the samples do not depend on the times of the calls.
func (k *knowledge) catchUp(now float64) {
	if k.start == 0 {
		k.start = now
	}
	if k.last == 0 || k.table == nil {
		return
	}
	ends := k.ends()
	// Sampling stops at the last bucket of silence. Further samples would add nothing, and a month of
	// silence must not cost a month of samples.
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

// sample adds a sample of the situation at a time that is not before the last request.
func (k *knowledge) sample(at float64) {
	silence := (at - k.last) / k.scale
	shape := 2*k.count*math.Exp(-silence/countDecay) + fallbackPrior
	k.table.note(at, shape, k.total, situationOf(silence, k.busy))
	k.sampled = at
}

// fitScale sorts the lead times. If they are far from the current scale, it sets a new scale and
// begins a new table, because the table's times depend on the scale. If no lead time is known, it
// assumes lead times close to the argument guess.
func (k *knowledge) fitScale(now float64, guess time.Duration) (stretched bool) {
	k.solves.sortLeads(guess)
	if k.start > 0 && len(k.solves.leads) < solvesToWait {
		return false // too few solves
	}
	ideal := k.solves.quantile(0.5) / usualLead
	if ideal <= 0 {
		return false
	}
	ideal = min(max(ideal, leastScale), mostScale)
	if far := k.scale / ideal; far <= farFactor && far >= 1/farFactor {
		return false
	}
	k.count = min(k.countAt(now)*ideal/k.scale, mostCount) // converted to the time constant of the new scale
	k.scale = ideal
	if k.table != nil {
		k.table = new(table)
	}
	k.sampled = now
	return true
}
