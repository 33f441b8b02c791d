package historytest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// The flag history-stories sets the number of stories that the function Stories plays. The flag
// first-history-story sets the seed of the first story.
//
//	go test ./internal/history/redisstore -run Stories -history-stories 500
var (
	drawnStories = flag.Int("history-stories", 0, "random stories of a history store; 0 = the number of its test")
	firstStory   = flag.Uint64("first-history-story", 1, "seed of the first story")
)

// Place contains the stores of one story. All stores are empty at the start.
type Place struct {
	Stores []history.Store // one store for each replica, all over the same data
	Audits []history.Audit // one audit for each replica, all over the same data
	Down   func(down bool) // starts an outage if down is true; ends it if down is false
	Delete func()          // deletes expired data; nil = the store deletes expired data by itself
	Bubble bool            // the store uses the clock of a synctest bubble
}

// StoryKeep is the time for which the stores of a Place keep records and entries.
const StoryKeep = 5 * 24 * time.Hour

// Stories calls the function play for n random stories, unless a flag sets another number. The name of the subtest
// contains the seed of the story, so that a failed story can be repeated.
func Stories(t *testing.T, n int, play func(t *testing.T, seed uint64)) {
	if *drawnStories > 0 {
		n = *drawnStories
	}
	for seed := *firstStory; seed < *firstStory+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { play(t, seed) })
	}
}

// Play plays a random story. Replicas write records and entries in batches. They also repeat writes,
// shuffle batches and interrupt writes. Some records and entries have already expired when they are
// written. During an outage of the store each call fails, and the replicas write the batches after the
// outage. The clock of the replicas steps back and forth, time passes, and expired data is deleted.
// Each query must return the same result as the model.
func Play(t *testing.T, seed uint64, p Place) {
	s := &drawn{
		t: t, place: p, random: rand.New(rand.NewPCG(seed, 0)),
		records: &twin{stores: p.Stores, model: model{}}, entries: &auditTwin{audits: p.Audits, model: auditModel{}},
	}
	for range 60 {
		s.step()
	}
	s.endOutage()
	s.forget()
	s.compare()
}

// drawn plays one random story.
type drawn struct {
	t       *testing.T
	place   Place
	random  *rand.Rand
	records *twin
	entries *auditTwin
	lag     time.Duration // by how much the clock of the replicas is behind
	named   int           // number of IDs that newID has returned
	sent    []batch       // written batches, some of which have expired
	down    bool
	pending []batch // batches that could not be written because of an outage
}

// batch contains the records of one write to the store and the entries of one write to the audit.
type batch struct {
	records []history.Record
	entries []history.Entry
}

const (
	// mostLag limits the field lag, so that no record of the last three days expires.
	mostLag = 40 * time.Hour
	// mostWritten limits the number of records in the model. With so few records no store drops the
	// oldest records of a list.
	mostWritten = 50
)

var (
	drawnKeys    = []string{"ci", history.Keyless, "CI"}
	storySites   = []string{"site", "Site", "site2"}
	storyTargets = []string{"/solve", "a", "b"}
)

// step plays one random event.
func (s *drawn) step() {
	s.forget()
	switch n := s.random.IntN(24); {
	case n < 7:
		s.send(s.draw(0))
	case n == 7:
		s.send(s.draw(StoryKeep + time.Hour)) // all records and entries have expired
	case n < 11:
		s.repeat()
	case n == 11:
		s.change()
	case n == 12:
		s.cutOff()
	case n == 13 && s.down:
		s.endOutage()
	case n == 13:
		s.place.Down(true)
		s.down = true
	case n == 14:
		s.lag = s.drawTime(mostLag)
	case n == 15 && s.place.Delete != nil && !s.down:
		s.place.Delete()
	case n == 15 && s.place.Bubble:
		time.Sleep(s.drawTime(36 * time.Hour))
	default:
		s.readRandom()
	}
}

// drawTime draws a duration of whole milliseconds below the limit.
func (s *drawn) drawTime(limit time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(limit.Milliseconds())) * time.Millisecond
}

// pick draws one element of a list.
func pick[T any](s *drawn, of ...T) T { return of[s.random.IntN(len(of))] }

// drawPast draws one of a few possible times in the past. Each of these times is before the present
// by at least the duration `age`.
func (s *drawn) drawPast(age time.Duration) time.Time {
	return time.Now().UTC().Truncate(time.Second).Add(-s.lag - age - time.Duration(s.random.IntN(5))*time.Millisecond)
}

// newID returns a new ID. The start of the ID is random, so that the order of IDs differs from the
// order of times.
func (s *drawn) newID() string {
	s.named++
	return pick(s, "A", "B", "a", "aB", "a1", "1") + fmt.Sprint("n", s.named)
}

// draw draws a batch of new records and entries, all at least as old as the argument age. A record or
// an entry may be in the batch twice.
func (s *drawn) draw(age time.Duration) (b batch) {
	for range min(s.random.IntN(9), mostWritten-len(s.records.model)) {
		b.records = append(b.records, s.record(s.newID(), age))
	}
	for range s.random.IntN(9) {
		b.entries = append(b.entries, entry(s.drawPast(age), withAction(pick(s, actions...)), withKey(pick(s, drawnKeys...)), func(e *history.Entry) {
			e.ID, e.Target = s.newID(), pick(s, storyTargets...)
		}))
	}
	if len(b.records) > 1 && s.random.IntN(4) == 0 {
		b.records[0] = b.records[1]
	}
	if len(b.entries) > 1 && s.random.IntN(4) == 0 {
		b.entries[0] = b.entries[1]
	}
	return b
}

// record draws a record. No two records have the same task, because another test covers that case.
func (s *drawn) record(order string, age time.Duration) history.Record {
	return record(s.drawPast(age), withEnd(pick(s, hows...)), withID(order), func(r *history.Record) {
		r.Sitekey, r.Target, r.Owner = pick(s, storySites...), pick(s, storyTargets...), pick(s, "a@example.com", "b@example.com")
		r.Type, r.Task = pick(s, captcha.RecaptchaV2, captcha.Turnstile), "task of "+order
		r.Choice = pick(s, "", "ordered", "cheapest", "best", "explore", "probe")
		if r.Costs() {
			r.Price = s.random.Int64N(1<<40) - 1
		}
	})
}

// send writes a batch. In an outage the write fails, and send keeps the batch in the field pending.
func (s *drawn) send(b batch) {
	s.sent = append(s.sent, b)
	if s.down {
		s.pending = append(s.pending, b)
		s.checkFails("writing records", func(ctx context.Context) error { return s.records.store().Write(ctx, b.records) }, len(b.records))
		s.checkFails("writing entries", func(ctx context.Context) error { return s.entries.audit().WriteEntries(ctx, b.entries) }, len(b.entries))
		return
	}
	s.records.write(s.t, b.records...)
	s.entries.write(s.t, b.entries...)
	s.forget()
}

// checkFails checks that a call with n items returns an error during an outage. The call must fail
// soon, or when its context ends.
func (s *drawn) checkFails(what string, call func(context.Context) error, n int) {
	s.t.Helper()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := call(ctx); err == nil || !errors.Is(err, history.ErrDown) && !errors.Is(err, ctx.Err()) {
		s.t.Fatalf("%s in an outage: %v, want history.ErrDown", what, err)
	}
}

// repeat writes an earlier batch again, in another order.
func (s *drawn) repeat() {
	if len(s.sent) == 0 {
		return
	}
	b := pick(s, s.sent...)
	b = batch{slices.Clone(b.records), slices.Clone(b.entries)}
	s.random.Shuffle(len(b.records), func(i, j int) { b.records[i], b.records[j] = b.records[j], b.records[i] })
	s.random.Shuffle(len(b.entries), func(i, j int) { b.entries[i], b.entries[j] = b.entries[j], b.entries[i] })
	s.send(b)
}

// change writes a record with a known ID and other contents. The store must ignore this record.
func (s *drawn) change() {
	if old, ok := s.drawKnown(); ok && !s.down {
		changed := s.record("other", 0)
		changed.ID, changed.Identity = old.ID, old.Identity
		s.records.write(s.t, changed)
	}
}

func (s *drawn) drawKnown() (history.Record, bool) {
	all, _ := s.records.model.page(func(history.Record) bool { return true }, history.Query{Limit: mostWritten})
	if len(all) == 0 {
		return history.Record{}, false
	}
	return pick(s, all...), true
}

// cutOff writes a batch with a deadline that may be too short, and then writes the batch again.
func (s *drawn) cutOff() {
	if s.down {
		return
	}
	b := s.draw(0)
	ctx, cancel := context.WithTimeout(s.t.Context(), s.drawTime(4*time.Millisecond))
	_ = s.records.store().Write(ctx, b.records)
	_ = s.entries.audit().WriteEntries(ctx, b.entries)
	cancel()
	s.send(b)
}

// endOutage ends an outage and writes the pending batches in random order.
func (s *drawn) endOutage() {
	if !s.down {
		return
	}
	s.place.Down(false)
	s.down = false
	for i := range 2 * len(s.place.Stores) {
		s.waitForReads(s.place.Stores[i%len(s.place.Stores)], s.place.Audits[i%len(s.place.Audits)])
	}
	s.random.Shuffle(len(s.pending), func(i, j int) { s.pending[i], s.pending[j] = s.pending[j], s.pending[i] })
	for _, b := range s.pending {
		s.send(b)
	}
	s.pending = nil
}

func (s *drawn) waitForReads(store history.Store, audit history.Audit) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, records := store.Day(s.t.Context(), time.Now())
		_, entries := audit.KeyDay(s.t.Context(), time.Now())
		switch {
		case records == nil && entries == nil:
			return
		case time.Now().After(deadline):
			s.t.Fatalf("after an outage: %v", errors.Join(records, entries))
		}
	}
}

// forget drops expired records and entries from the model.
func (s *drawn) forget() {
	oldest := time.Now().Add(-StoryKeep)
	s.records.model.forget(oldest)
	s.entries.model.forget(oldest)
}

// readRandom makes a random query and compares the result of the store with the model.
func (s *drawn) readRandom() {
	if s.down {
		s.checkFails("reading a site", func(ctx context.Context) error {
			_, err := s.records.store().Site(ctx, "site", history.Query{Limit: 1})
			return err
		}, 1)
		s.checkFails("reading a key", func(ctx context.Context) error {
			_, err := s.entries.audit().Entries(ctx, "ci", history.Query{Limit: 1})
			return err
		}, 1)
		return
	}
	known, found := s.drawKnown()
	switch s.random.IntN(6) {
	case 0:
		s.records.site(pick(s, storySites...)).comparePages(s.t, s.query(history.Position{Ended: known.Ended, ID: known.ID}))
	case 1:
		s.records.tasks(pick(s, history.StatusSolved, history.StatusError)).comparePages(s.t, s.query(history.Position{Ended: known.Ended, ID: known.ID}))
	case 2:
		s.entries.key(pick(s, drawnKeys...)).comparePages(s.t, s.query(history.Position{Ended: s.drawPast(0), ID: "a"}))
	case 3:
		s.compareDays()
	case 4:
		if found {
			s.records.compareSolve(s.t, known.ID)
			s.records.compareTask(s.t, known.Task)
		}
	case 5:
		if len(s.sent) > 0 {
			for _, r := range pick(s, s.sent...).records { // some of these records have expired
				s.records.compareSolve(s.t, r.ID)
				s.records.compareTask(s.t, r.Task)
			}
		}
	}
}

// compare compares the store with the model, for all results that the store can return, except the
// figures of earlier days.
func (s *drawn) compare() {
	pages := history.Query{Limit: 7}
	for _, sitekey := range storySites {
		s.records.site(sitekey).comparePages(s.t, pages)
	}
	for _, status := range []history.Status{history.StatusSolved, history.StatusError} {
		s.records.tasks(status).comparePages(s.t, pages)
	}
	for _, key := range drawnKeys {
		s.entries.key(key).comparePages(s.t, pages)
	}
	for id, r := range s.records.model {
		s.records.compareSolve(s.t, id)
		s.records.compareTask(s.t, r.Task)
	}
	s.compareDays()
}

// query draws a query. The query may continue after a position.
func (s *drawn) query(after history.Position) history.Query {
	q := history.Query{Limit: 1 + s.random.IntN(10)}
	if s.random.IntN(3) == 0 {
		q.From = s.drawPast(0)
	}
	if s.random.IntN(3) == 0 {
		q.To = s.drawPast(0)
	}
	if s.random.IntN(3) == 0 {
		q.Before = after
	}
	if s.random.IntN(3) == 0 {
		q.Targets = slices.Clone(storyTargets[:s.random.IntN(len(storyTargets)+1)])
	}
	return q
}

// compareDays compares the figures of the last three days with the model. No record of these days has
// expired.
func (s *drawn) compareDays() {
	for ago := range 3 {
		day := time.Now().Add(-time.Duration(ago) * 24 * time.Hour)
		s.records.compareDay(s.t, day)
		s.entries.compareDay(s.t, day)
	}
}
