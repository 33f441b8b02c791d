package policy

import "math"

// memory has the last requests of a target. A forecast looks for past moments that were like the present one, and
// counts what followed. Times are in Unix seconds.
type memory struct {
	entries []entry // ascending
	before  int64   // requests before the first entry
	last    float64 // time of the last request; 0 = none
	count   float64 // decayed count of requests at the time last
	scale   float64 // by which the constants are stretched
	found   []moment
}

// entry describes the requests within one tick.
type entry struct {
	at    float64 // of the first one
	busy  float64 // logarithm of the decayed count after the last one
	total int64   // requests up to this entry
}

func (m *memory) add(now float64, requests int64) {
	m.count = m.countAt(now) + float64(requests)
	m.last = now
	total := m.before + requests
	if n := len(m.entries); n > 0 {
		total = m.entries[n-1].total + requests
		if now-m.entries[n-1].at < calibrated.tick*m.scale {
			m.entries[n-1].busy, m.entries[n-1].total = math.Log(m.count), total
			return
		}
	}
	m.entries = append(m.entries, entry{now, math.Log(m.count), total})
	if len(m.entries) > calibrated.entries {
		m.before = m.entries[0].total
		m.entries = m.entries[1:]
	}
}

func (m *memory) countAt(now float64) float64 {
	return m.count * math.Exp((m.last-now)/(calibrated.decay*m.scale))
}

// rescale counts the remembered requests again, in ticks of another length.
func (m *memory) rescale(scale float64) {
	old, before, last := m.entries, m.before, m.last
	*m = memory{scale: scale}
	for _, e := range old {
		m.add(e.at, e.total-before)
		before = e.total
	}
	m.count, m.last = m.countAt(last), last
}

// moment is a past moment at which the last request was as long ago as it is now.
type moment struct {
	at     float64
	entry  int // index of the last entry before it
	weight float64
}

// similar returns the past moments that were like now, or a share of them if there are many. The list is valid until
// the next call.
func (m *memory) similar(now float64) []moment {
	silence, busy, all := now-m.last, math.Log(m.count), m.found[:0]
	for i := range len(m.entries) - 1 {
		e := &m.entries[i]
		if m.entries[i+1].at-e.at <= silence {
			continue
		}
		weight := 1.0
		if silence < calibrated.ignoreCounts*m.scale {
			weight = 1 - math.Abs(e.busy-busy)/calibrated.alike
		}
		if weight > 0 {
			all = append(all, moment{e.at + silence, i, weight})
		}
	}
	m.found = all
	stride, some := 1+len(all)/calibrated.moments, all[:0]
	for i := 0; i < len(all); i += stride {
		some = append(some, all[i])
	}
	return some
}

// followed counts, for each moment, the requests that came between `from` and `until` seconds after it. counts[n] is
// the weight of all moments with n requests, and sum the weight of all moments. Moments less than `until` seconds ago
// do not count.
func (m *memory) followed(list []moment, now, from, until float64) (counts []float64, sum float64) {
	counts = make([]float64, 0, 64)
	before, after := 0, 0
	for _, o := range list {
		if o.at+until > now {
			break
		}
		before, after = max(before, o.entry), max(after, o.entry)
		for from > 0 && before+1 < len(m.entries) && m.entries[before+1].at <= o.at+from {
			before++
		}
		for after+1 < len(m.entries) && m.entries[after+1].at <= o.at+until {
			after++
		}
		n := min(m.entries[after].total-m.entries[before].total, mostCounted)
		for int64(len(counts)) <= n {
			counts = append(counts, 0)
		}
		counts[n] += o.weight
		sum += o.weight
	}
	return counts, sum
}
