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
	// ArrivalsKept is for how long it is known when requests came.
	ArrivalsKept = 24 * time.Hour
	// ArrivalStep is how exactly: requests of the same step came together.
	ArrivalStep = 100 * time.Millisecond
	// arrivalsEvery is how often they are written: what a process that is killed loses.
	arrivalsEvery = 10 * time.Second
	// arrivalsHeld is for how many minutes they stay in memory, written or not. A request
	// is noted once Redis has answered it, a second after it came at most; Redis may be
	// unable to write for the rest.
	arrivalsHeld = 5

	stepsAMinute = int64(time.Minute / ArrivalStep)
)

// StoredMinute is the requests for a target in one minute, at one replica.
type StoredMinute struct {
	Target string
	Minute time.Time // UTC, a whole minute
	Text   string    // the moments, see encodeSteps
}

// ArrivalStore keeps minutes of requests; *redisstore.Arrivals implements it. A minute that is
// written again replaces what was written of it before by the same process.
type ArrivalStore interface {
	Write(ctx context.Context, minutes []StoredMinute) error
	Read(ctx context.Context, target string, from, to time.Time) ([]StoredMinute, error)
}

// Arrivals counts when requests for the tokens of targets come, and writes it now and
// then. It is safe for concurrent use.
type Arrivals struct {
	store ArrivalStore
	log   *slog.Logger

	mu     sync.Mutex
	byID   map[captcha.ID]*demand // of the targets of the file
	byName map[string]*demand     // and of those that left it, until all is written
	oldest int64                  // minute that is held; what came before is not counted
	down   bool                   // Run's: the last write failed
}

// demand is what came for a target lately.
type demand struct {
	wanted  bool // the file has the target
	minutes []minute
}

// minute is what came in a minute of Unix time.
type minute struct {
	number  int64
	steps   []step // ascending
	count   int    // requests
	written int    // of them
}

// step is how many requests came in a step of a minute.
type step struct {
	number uint16
	count  uint32
}

// Arrival is a step in which requests came.
type Arrival struct {
	At    time.Time // when it began, UTC
	Count int
}

// NewArrivals makes one that counts nothing before SetTargets.
func NewArrivals(store ArrivalStore, log *slog.Logger) *Arrivals {
	return &Arrivals{store: store, log: log, byName: map[string]*demand{}}
}

// SetTargets says by which names identities are counted from now on; others are not.
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

// Note counts a request that came at a moment, as pool.Options.OnRequest tells of it.
func (a *Arrivals) Note(id captcha.ID, came time.Time) {
	steps := came.UnixMilli() / ArrivalStep.Milliseconds()
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.byID[id]; d != nil && steps/stepsAMinute >= a.oldest {
		d.at(steps / stepsAMinute).add(uint16(steps % stepsAMinute)) //nolint:gosec // G115: below 600
	}
}

// at is a minute, nearly always the last one.
func (d *demand) at(number int64) *minute {
	i := len(d.minutes)
	for i > 0 && d.minutes[i-1].number > number {
		i--
	}
	if i == 0 || d.minutes[i-1].number < number {
		d.minutes = slices.Insert(d.minutes, i, minute{number: number})
		i++
	}
	return &d.minutes[i-1]
}

// add counts a request in a step, nearly always the last one.
func (m *minute) add(number uint16) {
	i := len(m.steps)
	for i > 0 && m.steps[i-1].number > number {
		i--
	}
	if i == 0 || m.steps[i-1].number < number {
		m.steps = slices.Insert(m.steps, i, step{number: number})
		i++
	}
	m.steps[i-1].count++
	m.count++
}

// Run writes until ctx ends, and then once more.
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

// unwritten is a copy of a minute that is to be written.
type unwritten struct {
	of     *demand
	target string
	minute
}

// write writes what was not written yet, and forgets what is held for too long. Only Run
// calls it.
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
		a.tell(err)
	}
	if lost := a.forget(at.Unix()/60 - arrivalsHeld + 1); lost > 0 {
		a.log.Warn("when requests came could not be written in time, and is lost", "requests", lost)
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
		u.of.at(u.number).written = u.count
	}
}

// tell logs where writing has begun to fail, or to succeed again. Only Run calls it.
func (a *Arrivals) tell(err error) {
	switch down := err != nil; {
	case down && !a.down:
		a.log.Warn("when requests come cannot be written", "err", err)
	case a.down && !down:
		a.log.Info("when requests come is written again")
	}
	a.down = err != nil
}

// forget lets go of the minutes before the oldest that is to be held, and answers how many
// requests in them were not written.
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

// Read are the arrivals of a target at from or later and before to, of all replicas, as far
// as they have written them.
func (a *Arrivals) Read(ctx context.Context, target string, from, to time.Time) ([]Arrival, error) {
	minutes, err := a.store.Read(ctx, target, from, to)
	if err != nil {
		return nil, err
	}
	counts := map[int64]int{} // by Unix ms
	for _, m := range minutes {
		steps, err := decodeSteps(m.Text)
		if err != nil {
			return nil, fmt.Errorf("history: when requests for %s came at %s: %w", target, m.Minute.Format(time.RFC3339), err)
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

// encodeSteps writes a minute: its steps as numbers from 0 to 599, with "*n" behind one
// in which more than one request came, as in "0*3 12 599".
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

// decodeSteps is the inverse.
func decodeSteps(text string) (steps []step, err error) {
	for word := range strings.FieldsSeq(text) {
		first, times, many := strings.Cut(word, "*")
		number, err := strconv.ParseUint(first, 10, 16)
		count := uint64(1)
		if err == nil && many {
			count, err = strconv.ParseUint(times, 10, 32)
		}
		if err != nil || int64(number) >= stepsAMinute {
			return nil, fmt.Errorf("%q is none of its steps", word)
		}
		steps = append(steps, step{number: uint16(number), count: uint32(count)})
	}
	return steps, nil
}
