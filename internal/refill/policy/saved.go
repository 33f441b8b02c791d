package policy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

const (
	savedVersion = 2
	// firstVersion is how version 1 began, which was no JSON.
	firstVersion = "pm"
	// savedMost is more than any State takes; savedMostJSON, when it is unpacked.
	savedMost     = 128 << 10
	savedMostJSON = 1 << 20
	// latest is the greatest time that is believed, in unix seconds.
	latest = 1e11
	// mostCount is the greatest decayed count that is.
	mostCount = 1e9
)

var (
	// ErrSavedVersion says that a saved State was written by another version of
	// poold, so that what it had learned begins afresh.
	ErrSavedVersion = errors.New("what was learned was saved by another version of poold, it is learned afresh")
	// ErrSavedCorrupt says that a saved State is not what poold wrote.
	ErrSavedCorrupt = errors.New("what was learned cannot be read, it is learned afresh")
)

// savedState is the JSON of a State, which is saved with gzip; times are in unix
// seconds. What waits for its horizon is not in it: that is the last two minutes.
type savedState struct {
	Version int           `json:"version"`
	Scale   float64       `json:"scale"`
	Start   float64       `json:"start"`
	Now     float64       `json:"now"`
	Last    float64       `json:"last"`
	Count   float64       `json:"count"`
	Credit  float64       `json:"credit"`
	Fails   float64       `json:"fails"`  // share of solves
	Streak  uint32        `json:"streak"` // failures in a row
	Slot    float64       `json:"slot"`   // seconds between two slots
	Leads   []float32     `json:"leads"`  // seconds, oldest first
	End     float64       `json:"end"`    // the last horizon
	Cells   map[int]*cell `json:"cells"`  // by situation
	Gaps    gaps          `json:"gaps"`
}

// save saves the State, without its Params, in at most 128 KiB and typically a
// twentieth of that.
func (m *State) save() ([]byte, error) {
	s := savedState{
		Version: savedVersion, Scale: m.scale, Start: m.start, Now: m.now, Last: m.last, Count: m.count, Credit: m.credit,
		Fails: m.solves.fails, Streak: m.solves.streak, Slot: m.slots.gap, End: m.ends()[horizons-1], Cells: map[int]*cell{},
	}
	for i := range m.solves.n {
		s.Leads = append(s.Leads, m.solves.leads[(m.solves.next+leadsKept-m.solves.n+i)%leadsKept])
	}
	if m.table != nil {
		for i, c := range m.table.cells {
			if c != nil {
				s.Cells[i] = c
			}
		}
		s.Gaps = m.table.gaps
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := errors.Join(json.NewEncoder(w).Encode(&s), w.Close())
	return packed.Bytes(), err
}

// Restore makes a State from a saved one. On an error, ErrSavedVersion or
// ErrSavedCorrupt, the State is one that has seen nothing. Times that lie ahead of
// at are taken for at.
func Restore(k Params, data []byte, at time.Time) (*State, error) {
	s, err := unpack(data)
	if err != nil {
		return NewState(k), err
	}
	m := NewState(k)
	if !s.plausible() {
		return m, fmt.Errorf("%w: a value is out of its range", ErrSavedCorrupt)
	}
	now := max(unixSeconds(at), 0)
	m.scale, m.count, m.credit = s.Scale, s.Count, min(max(s.Credit, m.creditLowest()), m.creditMost())
	m.start, m.now, m.last = min(s.Start, now), min(s.Now, now), min(s.Last, now)
	m.solves.fails, m.solves.streak, m.slots.gap = s.Fails, s.Streak, s.Slot
	m.solves.n = uint8(copy(m.solves.leads[:], s.Leads)) //nolint:gosec // G115: at most leadsKept
	m.solves.next = m.solves.n % leadsKept
	m.busy = bucket(busyEdges[:], m.count)
	m.sampled = now // nobody knows what happened meanwhile
	if m.table != nil {
		m.table.gaps, m.table.known = s.Gaps, len(s.Cells)
		for i, c := range s.Cells {
			m.table.cells[i] = c
			if m.ends()[horizons-1] != s.End { // that horizon is another one
				c.After[horizons-1], c.Late = histogram{}, 0
			}
		}
	}
	m.learned()
	return m, nil
}

func unpack(data []byte) (*savedState, error) {
	if bytes.HasPrefix(data, []byte(firstVersion)) {
		return nil, fmt.Errorf("%w: version 1, known is %d", ErrSavedVersion, savedVersion)
	}
	if len(data) > savedMost {
		return nil, fmt.Errorf("%w: %d bytes", ErrSavedCorrupt, len(data))
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSavedCorrupt, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, savedMostJSON)) // its checksum is behind the end
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSavedCorrupt, err)
	}
	s := new(savedState)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSavedCorrupt, err)
	}
	if s.Version != savedVersion {
		return nil, fmt.Errorf("%w: version %d, known is %d", ErrSavedVersion, s.Version, savedVersion)
	}
	return s, nil
}

// plausible checks every number that a State could not bear. JSON has no NaN.
func (s *savedState) plausible() bool {
	in := func(f, lo, hi float64) bool { return f >= lo && f <= hi }
	if !in(s.Scale, leastScale, mostScale) || !in(s.Start, 0, latest) || !in(s.Now, 0, latest) || !in(s.Last, 0, latest) ||
		!in(s.Count, 0, mostCount) || !in(s.Fails, 0, 1) || !in(s.Slot, 0, latest) || len(s.Leads) > leadsKept || len(s.Cells) > mostCells {
		return false
	}
	for _, lead := range s.Leads {
		if !in(float64(lead), 0, math.MaxInt32) {
			return false
		}
	}
	for i, c := range s.Cells {
		if i < 0 || i >= situations || c == nil || !c.restored() {
			return false
		}
	}
	for i := range s.Gaps {
		c := &s.Gaps[i]
		for b := range c.Reached {
			if c.Reached[b] > halveAt || c.Ended[b] > c.Reached[b] {
				return false
			}
		}
	}
	return true
}

// restored sums up what was read, and reports whether a cell can be like that.
func (c *cell) restored() bool {
	for h := range c.After {
		after := &c.After[h]
		after.weight = 0
		for _, units := range after.Bins {
			after.weight += uint32(units)
		}
		if after.weight > halveAt {
			return false
		}
	}
	return c.Late <= c.After[horizons-1].weight
}
