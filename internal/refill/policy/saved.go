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
	// firstVersion is the prefix of version 1 of the format, which was not JSON.
	firstVersion = "pm"
	// savedMost is the maximum size of a saved State in bytes, and savedMostJSON is the maximum
	// size of its JSON.
	savedMost     = 128 << 10
	savedMostJSON = 1 << 20
	// latest is the greatest valid time in Unix seconds. mostCount is the greatest valid decayed
	// count.
	latest    = 1e11
	mostCount = 1e9
)

var (
	// ErrSavedVersion means that another version of poold wrote the saved State.
	ErrSavedVersion = errors.New("another version of poold saved the learned state")
	// ErrSavedCorrupt means that the saved State is damaged or is not a State of poold.
	ErrSavedCorrupt = errors.New("the learned state is damaged")
)

// savedState is the JSON form of a State. The JSON is compressed with gzip. Times are in Unix
// seconds. Pending samples are not saved.
type savedState struct {
	Version int           `json:"version"`
	Scale   float64       `json:"scale"`
	Start   float64       `json:"start"`
	Now     float64       `json:"now"`
	Last    float64       `json:"last"`
	Count   float64       `json:"count"`
	Credit  float64       `json:"credit"`
	Fails   float64       `json:"fails"`  // share of solves that fail
	Streak  uint32        `json:"streak"` // failures in a row
	Slot    float64       `json:"slot"`   // seconds between two slots
	Leads   []float32     `json:"leads"`  // seconds, oldest first
	End     float64       `json:"end"`    // the last horizon
	Cells   map[int]*cell `json:"cells"`  // by situation
	Gaps    gaps          `json:"gaps"`
}

// save encodes the State without its Params. The size is at most 128 KiB, and usually a twentieth of
// that.
func (s *State) save() ([]byte, error) {
	k := s.learned
	saved := savedState{
		Version: savedVersion, Scale: k.scale, Start: k.start, Now: s.now, Last: k.last, Count: k.count, Credit: s.credit.left,
		Fails: k.solves.fails, Streak: k.solves.streak, Slot: s.slots.gap, Leads: k.solves.leads, End: k.ends()[horizons-1], Cells: map[int]*cell{},
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

// Restore decodes a saved State. If the error is ErrSavedVersion or ErrSavedCorrupt, Restore also
// returns a new State. If a saved time is later than the argument at, Restore sets it to the value
// of that argument.
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
	s.credit.left = min(max(saved.Credit, s.credit.deepestDebt(p.most(0))), s.credit.most())
	s.learned.restore(saved, now)
	s.refit()
	return s, nil
}

func (k *knowledge) restore(saved *savedState, now float64) {
	k.scale, k.count = saved.Scale, saved.Count
	k.start, k.last = min(saved.Start, now), min(saved.Last, now)
	k.solves.fails, k.solves.streak = saved.Fails, saved.Streak
	k.solves.leads = saved.Leads
	k.busy = bucket(busyEdges[:], k.count)
	k.sampled = now // no samples are added for the time since the save, because its demand is unknown
	if k.table == nil {
		return
	}
	k.table.gaps, k.table.known = saved.Gaps, len(saved.Cells)
	for i, c := range saved.Cells {
		k.table.cells[i] = c
		if k.ends()[horizons-1] != saved.End { // the usable life has changed since the save
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
	text, err := io.ReadAll(io.LimitReader(r, savedMostJSON)) // ReadAll also checks the checksum at the end
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

// plausible reports whether every number is in its range. JSON cannot contain NaN.
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

// restored sets the derived weights of a decoded cell, and reports whether the cell is
// valid.
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
