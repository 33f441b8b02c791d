package policy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	savedVersion = 3
	// MostSaved is the maximum size of a saved state in bytes. mostHistory is the maximum size of the requests in it; the
	// oldest requests that do not fit are left out. Base64 in JSON makes them a third larger.
	MostSaved   = 4096
	mostHistory = 2700
	// savedTick is the resolution of the saved times in seconds, at scale 1.
	savedTick = 0.1
)

// savedState is the JSON form of a Learned. Times are in Unix seconds.
type savedState struct {
	Version int     `json:"version"`
	Seen    Totals  `json:"seen"`
	Scale   float64 `json:"scale"`
	Start   float64 `json:"start"`
	Last    float64 `json:"last"`
	Credit  float64 `json:"credit"`
	Fails   float64 `json:"fails"`
	Permit  float64 `json:"permit"` // seconds between two permits
	// History has pairs of varints from the newest entry to the oldest: the ticks since the former entry, and the
	// number of requests.
	History []byte `json:"history"`
}

// Save encodes the learned state in at most MostSaved bytes.
func (l *Learned) Save() []byte {
	m := &l.memory
	s := savedState{Version: savedVersion, Seen: l.seen, Scale: m.scale, Start: l.start, Last: m.last,
		Credit: l.credit.left, Fails: l.fails, Permit: l.permits.gap}
	next := m.last
	for i := len(m.entries) - 1; i >= 0 && len(s.History) < mostHistory-2*binary.MaxVarintLen64; i-- {
		before := m.before
		if i > 0 {
			before = m.entries[i-1].total
		}
		ticks := math.Round((next - m.entries[i].at) / (savedTick * m.scale))
		s.History = binary.AppendUvarint(s.History, uint64(ticks))
		s.History = binary.AppendUvarint(s.History, uint64(m.entries[i].total-before)) //nolint:gosec // G115: ascending
		next -= ticks * savedTick * m.scale
	}
	text, _ := json.Marshal(s) // of numbers and bytes: no error is possible
	return text
}

// Restore decodes a saved state. Saved times after `at` become `at`. If another version of poold saved the state,
// Restore may return an error and a new state.
func Restore(p Params, saved []byte, at time.Time) (*Learned, error) {
	l, now := NewLearned(p), max(0, unix(at))
	var s savedState
	if err := json.Unmarshal(saved, &s); err != nil || s.Version != savedVersion {
		return l, fmt.Errorf("the learned state is not of version %d", savedVersion)
	}
	var ticks, requests []uint64
	for history := bytes.NewReader(s.History); history.Len() > 0; {
		tick, _ := binary.ReadUvarint(history) // Save has written it
		count, _ := binary.ReadUvarint(history)
		ticks, requests = append(ticks, tick), append(requests, count)
	}
	l.memory.scale = s.Scale
	last := min(s.Last, now)
	when := last
	for _, tick := range ticks {
		when -= float64(tick) * savedTick * s.Scale
	}
	for i, tick := range slices.Backward(ticks) {
		l.memory.add(when, int64(requests[i])) //nolint:gosec // G115: Save had an int64
		when += float64(tick) * savedTick * s.Scale
	}
	most := calibrated.saveUp * startCredit(&p)
	l.seen, l.knows, l.start, l.fails, l.permits.gap = s.Seen, true, min(s.Start, now), s.Fails, s.Permit
	l.credit.left = min(max(s.Credit, -most), most)
	l.memory.count, l.memory.last = l.memory.countAt(last), last
	l.rareness = 0 // the next Learn knows the lead times
	return l, nil
}
