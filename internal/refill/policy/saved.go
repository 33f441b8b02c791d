package refill

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

const (
	savedVersion = 2
	// firstVersion is how version 1 began, which was no JSON.
	firstVersion = "pm"
	// savedMost is more than any Mind takes; savedMostJSON, when it is unpacked.
	savedMost     = 128 << 10
	savedMostJSON = 1 << 20
	// latest is the greatest time that is believed, in unix seconds.
	latest = 1e11
	// mostCount is the greatest decayed count that is.
	mostCount = 1e9
)

var (
	// ErrSavedVersion says that a saved Mind was written by another version of
	// poold, so that what it had learned begins afresh.
	ErrSavedVersion = errors.New("what was learned was saved by another version of poold, it is learned afresh")
	// ErrSavedCorrupt says that a saved Mind is not what poold wrote.
	ErrSavedCorrupt = errors.New("what was learned cannot be read, it is learned afresh")
)

// savedMind is the JSON of a Mind, which is saved with gzip; times are in unix
// seconds. What waits for its horizon is not in it: that is the last two minutes.
type savedMind struct {
	Version int                  `json:"version"`
	Scale   float64              `json:"scale"`
	Start   float64              `json:"start"`
	Now     float64              `json:"now"`
	Last    float64              `json:"last"`
	Count   float64              `json:"count"`
	Credit  float64              `json:"credit"`
	Fails   float64              `json:"fails"`  // share of solves
	Streak  uint32               `json:"streak"` // failures in a row
	Slot    float64              `json:"slot"`   // seconds between two slots
	Leads   []float32            `json:"leads"`  // seconds, oldest first
	End     float64              `json:"end"`    // the last horizon
	Cells   map[int]savedCell    `json:"cells"`  // by situation
	Gaps    [gapClasses]savedGap `json:"gaps"`
}

type savedCell struct {
	After [horizons][]uint16 `json:"after"` // bins
	Late  uint32             `json:"late"`
}

type savedGap struct {
	Reached []uint16 `json:"reached"`
	Ended   []uint16 `json:"ended"`
}

// MarshalBinary saves the Mind, without its Knobs, in at most 128 KiB and
// typically a twentieth of that. It has no error.
func (m *Mind) MarshalBinary() ([]byte, error) {
	s := savedMind{
		Version: savedVersion, Scale: m.scale, Start: m.start, Now: m.now, Last: m.last, Count: m.count, Credit: m.credit,
		Fails: m.solves.fails, Streak: m.solves.streak, Slot: m.slots.gap, End: m.ends()[horizons-1],
	}
	for i := range m.solves.n {
		s.Leads = append(s.Leads, m.solves.leads[(m.solves.next+leadsKept-m.solves.n+i)%leadsKept])
	}
	if m.table != nil {
		s.Cells = map[int]savedCell{}
		for i, c := range m.table.cells {
			if c == nil {
				continue
			}
			saved := savedCell{Late: c.late}
			for h := range c.after {
				saved.After[h] = c.after[h].bins[:]
			}
			s.Cells[i] = saved
		}
		for i := range m.table.gaps {
			c := &m.table.gaps[i]
			s.Gaps[i] = savedGap{Reached: c.reached[:], Ended: c.ended[:]}
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := errors.Join(json.NewEncoder(w).Encode(s), w.Close())
	return packed.Bytes(), err
}

// Restore makes a Mind from a saved one. On an error, ErrSavedVersion or
// ErrSavedCorrupt, the Mind is one that has seen nothing. Times that lie ahead of
// at are taken for at.
func Restore(k Knobs, data []byte, at time.Time) (*Mind, error) {
	s, err := unpack(data)
	if err != nil {
		return NewMind(k), err
	}
	m := NewMind(k)
	learned := newTable()
	if !s.plausible() || !s.fill(learned) {
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
		m.table = learned
		if m.ends()[horizons-1] != s.End {
			learned.forgetLast()
		}
	}
	m.learned()
	return m, nil
}

func unpack(data []byte) (*savedMind, error) {
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
	s := new(savedMind)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSavedCorrupt, err)
	}
	if s.Version != savedVersion {
		return nil, fmt.Errorf("%w: version %d, known is %d", ErrSavedVersion, s.Version, savedVersion)
	}
	return s, nil
}

// plausible checks every number that a Mind could not bear. JSON has no NaN.
func (s *savedMind) plausible() bool {
	in := func(f, lo, hi float64) bool { return f >= lo && f <= hi }
	return in(s.Scale, leastScale, mostScale) && in(s.Start, 0, latest) && in(s.Now, 0, latest) && in(s.Last, 0, latest) &&
		in(s.Count, 0, mostCount) && in(s.Fails, 0, 1) && in(s.Slot, 0, latest) && len(s.Leads) <= leadsKept &&
		!slices.ContainsFunc(s.Leads, func(lead float32) bool { return !in(float64(lead), 0, math.MaxInt32) })
}

// fill brings what was learned into an empty table, unless it is not plausible.
func (s *savedMind) fill(t *table) bool {
	for i, saved := range s.Cells {
		if i < 0 || i >= situations || len(s.Cells) > mostCells {
			return false
		}
		c := t.cell(i)
		for h := range c.after {
			after := &c.after[h]
			copy(after.bins[:], saved.After[h])
			for _, units := range after.bins {
				after.weight += uint32(units)
			}
			if after.weight > halveAt {
				return false
			}
		}
		if c.late = saved.Late; c.late > c.after[horizons-1].weight {
			return false
		}
	}
	for i, saved := range s.Gaps {
		c := &t.gaps[i]
		copy(c.reached[:], saved.Reached)
		copy(c.ended[:], saved.Ended)
		for b := range c.reached {
			if c.reached[b] > halveAt || c.ended[b] > c.reached[b] {
				return false
			}
		}
	}
	return true
}
