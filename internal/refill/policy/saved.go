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
func (s *State) save() ([]byte, error) {
	k := s.learned
	saved := savedState{
		Version: savedVersion, Scale: k.scale, Start: k.start, Now: s.now, Last: k.last, Count: k.count, Credit: s.credit.left,
		Fails: k.solves.fails, Streak: k.solves.streak, Slot: s.slots.gap, End: k.ends()[horizons-1], Cells: map[int]*cell{},
	}
	for i := range k.solves.n {
		saved.Leads = append(saved.Leads, k.solves.leads[(k.solves.next+leadsKept-k.solves.n+i)%leadsKept])
	}
	if k.table != nil {
		for i, c := range k.table.cells {
			if c != nil {
				saved.Cells[i] = c
			}
		}
		saved.Gaps = k.table.gaps
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := errors.Join(json.NewEncoder(w).Encode(&saved), w.Close())
	return packed.Bytes(), err
}

// Restore makes a State from a saved one. On an error, ErrSavedVersion or
// ErrSavedCorrupt, the State is one that has seen nothing. Times that lie ahead of
// at are taken for at.
func Restore(p Params, data []byte, at time.Time) (*State, error) {
	saved, err := unpack(data)
	if err != nil {
		return NewState(p), err
	}
	s := NewState(p)
	if !saved.plausible() {
		return s, fmt.Errorf("%w: a value is out of its range", ErrSavedCorrupt)
	}
	now := max(unixSeconds(at), 0)
	s.now, s.slots.gap = min(saved.Now, now), saved.Slot
	s.credit.left = min(max(saved.Credit, s.credit.lowest(p.most(0))), s.credit.most())
	s.learned.restore(saved, now)
	s.refit()
	return s, nil
}

// restore takes what was saved.
func (k *knowledge) restore(saved *savedState, now float64) {
	k.scale, k.count = saved.Scale, saved.Count
	k.start, k.last = min(saved.Start, now), min(saved.Last, now)
	k.solves.fails, k.solves.streak = saved.Fails, saved.Streak
	k.solves.n = uint8(copy(k.solves.leads[:], saved.Leads)) //nolint:gosec // G115: at most leadsKept
	k.solves.next = k.solves.n % leadsKept
	k.busy = bucket(busyEdges[:], k.count)
	k.sampled = now // nobody knows what happened meanwhile
	if k.table == nil {
		return
	}
	k.table.gaps, k.table.known = saved.Gaps, len(saved.Cells)
	for i, c := range saved.Cells {
		k.table.cells[i] = c
		if k.ends()[horizons-1] != saved.End { // that horizon is another one
			c.After[horizons-1], c.Late = histogram{}, 0
		}
	}
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
