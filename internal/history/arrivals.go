package history

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// ArrivalsKept is how long a caller can read an arrival after it was counted.
	ArrivalsKept = 24 * time.Hour
	// ArrivalStep is the resolution of the arrivals: requests in the same step have the same time.
	ArrivalStep = 100 * time.Millisecond
	// arrivalsEvery is the interval between two writes. A killed process loses the arrivals since its last write.
	arrivalsEvery = 10 * time.Second
	// arrivalsHeld is the number of minutes whose arrivals stay in memory, even after they are
	// written. Note is called at most a second after the arrival of a request, so two minutes would
	// suffice. Three more minutes are kept because writes fail during an outage of Redis.
	arrivalsHeld = 5

	stepsAMinute = int64(time.Minute / ArrivalStep)
)

// StoredMinute contains the requests for one target that arrived at one replica in one minute.
type StoredMinute struct {
	Target string
	Minute time.Time // start of the minute, UTC
	Text   string    // the steps with requests, encoded by encodeSteps
}

// ArrivalStore keeps the arrivals of requests by minute; *redisstore.Arrivals implements it. When a process writes a
// minute again, the new value replaces the old value of the same process.
type ArrivalStore interface {
	Write(ctx context.Context, minutes []StoredMinute) error
	Read(ctx context.Context, target string, from, to time.Time) ([]StoredMinute, error)
}

// Arrivals counts the requests for tokens of each target by their time of arrival, and writes the
// counts periodically. It is safe for concurrent use.
type Arrivals struct {
	store ArrivalStore
	log   *slog.Logger
	down  outage

	mu     sync.Mutex
	byID   map[captcha.ID]*demand // the targets of the configuration file
	byName map[string]*demand     // the targets of byID, and of removed targets that have minutes in memory
	oldest int64                  // first minute in memory; requests of earlier minutes are not counted
}

// demand contains the recent requests for one target.
type demand struct {
	wanted  bool // the configuration file contains the target
	minutes []minute
}

// minute contains the requests that arrived in one minute.
type minute struct {
	number  int64  // minutes since the Unix epoch
	steps   []step // ascending
	count   int    // number of requests
	written int    // number of requests that are in the store
}

// step is the number of requests that arrived in one step of a minute.
type step struct {
	number uint16 // from 0 to 599
	count  uint32 // number of requests
}

// Arrival is the number of requests that arrived in one step.
type Arrival struct {
	At    time.Time // start of the step, UTC
	Count int
}

// NewArrivals returns an Arrivals that counts no requests until SetTargets is called.
func NewArrivals(store ArrivalStore, log *slog.Logger) *Arrivals {
	return &Arrivals{store: store, log: log, byName: map[string]*demand{}, down: outage{
		log: log, began: "the arrivals of requests cannot be written", ended: "the arrivals of requests are written again",
	}}
}

// SetTargets sets the identities whose requests are counted. The argument maps each identity to the
// name of its target.
func (a *Arrivals) SetTargets(names map[captcha.ID]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.byName {
		d.wanted = false
	}
	a.byID = make(map[captcha.ID]*demand, len(names))
	for id, name := range names {
		d := a.byName[name]
		if d == nil {
			d = new(demand)
			a.byName[name] = d
		}
		d.wanted = true
		a.byID[id] = d
	}
}

// Note counts a request. The daemon sets the method Note as pool.Options.OnRequest.
func (a *Arrivals) Note(id captcha.ID, arrived time.Time) {
	steps := arrived.UnixMilli() / ArrivalStep.Milliseconds()
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.byID[id]; d != nil && steps/stepsAMinute >= a.oldest {
		d.minuteAt(steps / stepsAMinute).addRequest(uint16(steps % stepsAMinute)) //nolint:gosec // G115: below 600
	}
}

// minuteAt returns the minute with the given number. If there is no such minute, minuteAt adds one.
func (d *demand) minuteAt(number int64) *minute {
	var i int
	d.minutes, i = findOrInsert(d.minutes, minute{number: number}, func(m minute) int64 { return m.number })
	return &d.minutes[i]
}

// addRequest counts a request in a step.
func (m *minute) addRequest(number uint16) {
	var i int
	m.steps, i = findOrInsert(m.steps, step{number: number}, func(s step) int64 { return int64(s.number) })
	m.steps[i].count++
	m.count++
}

// findOrInsert finds the element of a list that has the same number as the given element, and
// returns its index. The list is ascending. If the list has no such element, findOrInsert inserts
// the given element and returns the longer list. It searches from the end, because most requests
// belong to the last element.
func findOrInsert[T any](list []T, element T, number func(T) int64) (with []T, at int) {
	at = len(list)
	for at > 0 && number(list[at-1]) > number(element) {
		at--
	}
	if at > 0 && number(list[at-1]) == number(element) {
		return list, at - 1
	}
	return slices.Insert(list, at, element), at
}

// Run writes the arrivals periodically until ctx ends, and a last time after that.
func (a *Arrivals) Run(ctx context.Context) error {
	ticker := time.NewTicker(arrivalsEvery)
	defer ticker.Stop()
	for {
		select {
		case at := <-ticker.C:
			a.write(ctx, at)
		case <-ctx.Done():
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
			defer cancel()
			a.write(limited, time.Now())
			return nil
		}
	}
}

// unwritten is a copy of a minute with unwritten requests, and the name of the target.
type unwritten struct {
	of     *demand
	target string
	minute
}

// write writes each minute that has unwritten requests, and drops old minutes from memory. Only Run calls it.
func (a *Arrivals) write(ctx context.Context, at time.Time) {
	if batch := a.unwritten(); len(batch) > 0 {
		minutes := make([]StoredMinute, len(batch))
		for i, u := range batch {
			minutes[i] = StoredMinute{Target: u.target, Minute: time.Unix(u.number*60, 0).UTC(), Text: encodeSteps(u.steps)}
		}
		err := a.store.Write(ctx, minutes)
		if err == nil {
			a.markWritten(batch)
		}
		if err == nil || ctx.Err() == nil { // the end of ctx is not a fault of the store
			a.down.note(err)
		}
	}
	if lost := a.forget(at.Unix()/60 - arrivalsHeld + 1); lost > 0 {
		a.log.Warn("arrivals of requests could not be written in time and are lost", "requests", lost)
	}
}

func (a *Arrivals) unwritten() (batch []unwritten) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for target, d := range a.byName {
		for _, m := range d.minutes {
			if m.written < m.count {
				m.steps = slices.Clone(m.steps)
				batch = append(batch, unwritten{of: d, target: target, minute: m})
			}
		}
	}
	return batch
}

func (a *Arrivals) markWritten(batch []unwritten) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range batch {
		u.of.minuteAt(u.number).written = u.count
	}
}

// forget drops from memory all minutes before the minute with the number `oldest`. It returns the
// number of unwritten requests in the dropped minutes.
func (a *Arrivals) forget(oldest int64) (lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.oldest = oldest
	for name, d := range a.byName {
		d.minutes = slices.DeleteFunc(d.minutes, func(m minute) bool {
			if m.number < oldest {
				lost += m.count - m.written
			}
			return m.number < oldest
		})
		if !d.wanted && len(d.minutes) == 0 {
			delete(a.byName, name)
		}
	}
	return lost
}

// Read returns the arrivals of a target in [from, to), oldest first. It returns only arrivals that
// replicas have written.
func (a *Arrivals) Read(ctx context.Context, target string, from, to time.Time) ([]Arrival, error) {
	minutes, err := a.store.Read(ctx, target, from, to)
	if err != nil {
		return nil, err
	}
	counts := map[int64]int{} // counts by Unix ms
	for _, m := range minutes {
		steps, err := decodeSteps(m.Text)
		if err != nil {
			return nil, fmt.Errorf("history: reading the arrivals of %s at %s: %w", target, m.Minute.Format(time.RFC3339), err)
		}
		for _, s := range steps {
			if at := m.Minute.Add(time.Duration(s.number) * ArrivalStep); !at.Before(from) && at.Before(to) {
				counts[at.UnixMilli()] += int(s.count)
			}
		}
	}
	all := make([]Arrival, 0, len(counts))
	for at, n := range counts {
		all = append(all, Arrival{At: time.UnixMilli(at).UTC(), Count: n})
	}
	slices.SortFunc(all, func(a, b Arrival) int { return a.At.Compare(b.At) })
	return all, nil
}

// encodeSteps formats the steps of a minute as numbers from 0 to 599, for example "0*3 12 599". The suffix "*3" means
// that the step has three requests instead of one.
func encodeSteps(steps []step) string {
	var text []byte
	for i, s := range steps {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(s.number), 10)
		if s.count > 1 {
			text = append(text, '*')
			text = strconv.AppendUint(text, uint64(s.count), 10)
		}
	}
	return string(text)
}

// decodeSteps is the inverse of encodeSteps.
func decodeSteps(text string) (steps []step, err error) {
	for word := range strings.FieldsSeq(text) {
		first, times, many := strings.Cut(word, "*")
		number, err := strconv.ParseUint(first, 10, 16)
		count := uint64(1)
		if err == nil && many {
			count, err = strconv.ParseUint(times, 10, 32)
		}
		if err != nil || int64(number) >= stepsAMinute {
			return nil, fmt.Errorf("%q is not a step of a minute", word)
		}
		steps = append(steps, step{number: uint16(number), count: uint32(count)})
	}
	return steps, nil
}
