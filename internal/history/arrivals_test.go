package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// counter is an Arrivals of one replica that runs until it is stopped.
type counter struct {
	*history.Arrivals
	stock *pool.Store
	stop  func()
}

// startReplica starts a replica that counts requests. Only identity 1 has a target.
func (p *place) startReplica() *counter {
	c := new(counter)
	stock, err := pool.Open(pool.Options{
		Addresses: "redis://bubble", Dial: p.dial.Dial, Prefix: "history", Log: slog.New(slog.DiscardHandler),
		OnRequest: func(id captcha.ID, came time.Time) { c.Note(id, came) },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = stock.Close() })
	c.stock = stock
	c.Arrivals, c.stop = p.runCounter(redisstore.NewArrivals(stock.DB))
	return c
}

func (p *place) runCounter(store history.ArrivalStore) (a *history.Arrivals, stop func()) {
	a = history.NewArrivals(store, slog.New(slog.NewTextHandler(&p.log, nil)))
	a.SetTargets(map[captcha.ID]string{identity(1).ID(): "login"})
	return a, p.runUntilStopped(a.Run)
}

// ask requests n tokens of identity i, whose stock is empty.
func (c *counter) ask(t *testing.T, i, n int) {
	t.Helper()
	for range n {
		empty := (*pool.EmptyError)(nil)
		if _, err := c.stock.Tokens.Take(t.Context(), pool.Request{ID: identity(i).ID()}); !errors.As(err, &empty) {
			t.Fatal(err)
		}
	}
}

// arrivalsSince returns the arrivals of a target since a time, as "second*count".
func (c *counter) arrivalsSince(t *testing.T, target string, from time.Time) (texts []string) {
	t.Helper()
	found, err := c.Read(t.Context(), target, from, time.Now().Add(time.Nanosecond))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found {
		texts = append(texts, fmt.Sprintf("%g*%d", a.At.Sub(from).Seconds(), a.Count))
	}
	return texts
}

// Requests at two replicas are counted together, in steps of a tenth of a second. The counts are
// correct across the end of a minute, and also after a replica restarts within a minute.
func TestArrivalsOfReplicasAreCountedTogether(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		from := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(from))
		one, two := p.startReplica(), p.startReplica()
		one.ask(t, 1, 2)
		one.ask(t, 2, 1) // this identity has no target
		time.Sleep(100 * time.Millisecond)
		two.ask(t, 1, 1)
		time.Sleep(99 * time.Millisecond) // still in the same tenth of a second
		one.ask(t, 1, 1)
		if got := two.arrivalsSince(t, "login", from); got != nil {
			t.Errorf("before anything was written: %v", got)
		}
		time.Sleep(10 * time.Second) // the replica writes at 10 s
		if got, want := two.arrivalsSince(t, "login", from), []string{"0*2", "0.1*2"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		one.ask(t, 1, 1) // this request arrives at 10.199 s
		one.stop()
		one = p.startReplica()
		one.ask(t, 1, 1)
		time.Sleep(time.Until(from.Add(time.Minute - time.Millisecond)))
		one.ask(t, 1, 1)
		time.Sleep(time.Millisecond)
		one.ask(t, 1, 3)
		one.stop()
		want := []string{"0*2", "0.1*2", "10.1*2", "59.9*1", "60*3"}
		if got := two.arrivalsSince(t, "login", from); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if got := two.arrivalsSince(t, "login", from.Add(100*time.Millisecond)); !slices.Equal(got, []string{"0*2", "10*2", "59.8*1", "59.9*3"}) {
			t.Errorf("from a tenth on: %v", got)
		}
		if found, err := two.Read(t.Context(), "login", from, from.Add(time.Minute)); err != nil || len(found) != 4 {
			t.Errorf("before the second minute: %v, %v", found, err)
		}
		if got := two.arrivalsSince(t, "other", from); got != nil {
			t.Errorf("of another target: %v", got)
		}
		if p.log.Len() > 0 {
			t.Errorf("logged: %s", &p.log)
		}
	})
}

// Requests arrive at random times at three replicas. Read returns the times at which the requests
// arrived.
func TestArrivalsAreReadAsTheyCame(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		random := rand.New(rand.NewPCG(1, 2))
		from := time.Now().Truncate(time.Second)
		replicas := []*counter{p.startReplica(), p.startReplica(), p.startReplica()}
		counts := map[int64]int{}
		for range 2000 {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
			came := time.Now().Add(-time.Duration(random.IntN(1000)) * time.Millisecond) // as if Redis had answered late
			if came.Before(from) {
				continue
			}
			n := 1 + random.IntN(3)
			for range n {
				replicas[random.IntN(3)].Note(identity(1).ID(), came)
			}
			counts[came.Sub(from).Milliseconds()/100] += n
		}
		for _, c := range replicas {
			c.stop()
		}
		found, err := replicas[0].Read(t.Context(), "login", from, time.Now())
		if err != nil || len(found) != len(counts) {
			t.Fatalf("%d steps of %d, %v", len(found), len(counts), err)
		}
		for _, a := range found {
			if step := a.At.Sub(from).Milliseconds() / 100; counts[step] != a.Count {
				t.Errorf("%d in step %d, want %d", a.Count, step, counts[step])
			}
		}
		if !slices.IsSortedFunc(found, func(a, b history.Arrival) int { return a.At.Compare(b.At) }) {
			t.Error("they are not in order")
		}
	})
}

// A target keeps its arrivals when a reload changes the identity of the target. A removed target
// keeps its unwritten arrivals.
func TestArrivalsSurviveAReload(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		from := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(from))
		c := p.startReplica()
		time.Sleep(time.Millisecond) // until the writes, which happen every ten seconds, are done
		c.ask(t, 1, 1)
		c.SetTargets(map[captcha.ID]string{identity(2).ID(): "login"})
		c.ask(t, 1, 1) // this identity has no target
		c.ask(t, 2, 1)
		c.SetTargets(nil)
		c.ask(t, 2, 1)
		time.Sleep(10 * time.Second)
		if got := c.arrivalsSince(t, "login", from); !slices.Equal(got, []string{"0*2"}) {
			t.Errorf("%v", got)
		}
		c.SetTargets(map[captcha.ID]string{identity(2).ID(): "login"})
		c.ask(t, 2, 1)
		time.Sleep(10 * time.Minute)
		if got := c.arrivalsSince(t, "login", from); !slices.Equal(got, []string{"0*2", "10*1"}) {
			t.Errorf("%v", got)
		}
	})
}

// unwritable is a store whose writes can fail.
type unwritable struct {
	history.ArrivalStore

	mu     sync.Mutex
	err    error
	writes int
}

// setFault makes all later writes fail with err. If err is nil, they succeed.
func (u *unwritable) setFault(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

func (u *unwritable) Write(ctx context.Context, minutes []history.StoredMinute) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writes++; u.err != nil {
		return u.err
	}
	return u.ArrivalStore.Write(ctx, minutes)
}

// Unwritten arrivals stay in memory for some minutes. After that, the log reports them as lost. A
// request is not counted if its minute is no longer in memory. If poold counted such a request, the
// stored minute would lose its earlier requests at the next write.
func TestUnwrittenArrivalsAreKeptForMinutes(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		from, id := time.Now().Truncate(time.Minute).Add(time.Minute), identity(1).ID()
		time.Sleep(time.Until(from))
		store := &unwritable{ArrivalStore: redisstore.NewArrivals(p.stock.DB), err: errors.New("full")}
		a, stop := p.runCounter(store)
		c := &counter{Arrivals: a}
		time.Sleep(time.Millisecond) // until the writes, which happen every ten seconds, are done
		a.Note(id, time.Now())
		a.Note(id, time.Now())
		time.Sleep(4 * time.Minute)
		a.Note(id, time.Now())
		store.setFault(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := c.arrivalsSince(t, "login", from); !slices.Equal(got, []string{"0*2", "240*1"}) {
			t.Errorf("%v", got)
		}
		writes := store.writes
		time.Sleep(time.Minute) // until 5:10
		if synctest.Wait(); store.writes != writes {
			t.Errorf("with nothing new there were %d writes", store.writes-writes)
		}
		a.Note(id, from)                  // this minute is no longer in memory
		a.Note(id, from.Add(time.Minute)) // the oldest minute in memory
		time.Sleep(10 * time.Second)
		if got := c.arrivalsSince(t, "login", from); !slices.Equal(got, []string{"0*2", "60*1", "240*1"}) {
			t.Errorf("%v", got)
		}
		store.setFault(errors.New("full again"))
		a.Note(id, time.Now())
		a.Note(id, time.Now())
		time.Sleep(6 * time.Minute)
		store.setFault(nil)
		a.Note(id, time.Now())
		stop()
		if got := c.arrivalsSince(t, "login", from); !slices.Equal(got, []string{"0*2", "60*1", "240*1", "680*1"}) {
			t.Errorf("%v", got)
		}
		var said []string
		for line := range strings.Lines(p.log.String()) {
			_, line, _ = strings.Cut(line, "msg=")
			said = append(said, strings.TrimSpace(line))
		}
		if want := []string{
			`"the arrivals of requests cannot be written" err=full`, `"the arrivals of requests are written again" took=4m0s`,
			`"the arrivals of requests cannot be written" err="full again"`, `"arrivals of requests could not be written in time and are lost" requests=2`,
			`"the arrivals of requests are written again" took=5m50s`,
		}; !slices.Equal(said, want) {
			t.Errorf("logged %q, want %q", said, want)
		}
	})
}

// hanging is a store whose first write hangs until its context ends.
type hanging struct {
	history.ArrivalStore
	writes int
}

func (h *hanging) Write(ctx context.Context, minutes []history.StoredMinute) error {
	if h.writes++; h.writes == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.ArrivalStore.Write(ctx, minutes)
}

// If a stop interrupts a write, the write is repeated, and the log does not report an outage.
func TestStopRepeatsAnInterruptedWriteOfArrivals(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		from := time.Now().Truncate(time.Minute)
		a, stop := p.runCounter(&hanging{ArrivalStore: redisstore.NewArrivals(p.stock.DB)})
		at := time.Now()
		a.Note(identity(1).ID(), at)
		time.Sleep(15 * time.Second)
		stop()
		if found, err := a.Read(t.Context(), "login", from, time.Now()); err != nil || len(found) != 1 {
			t.Errorf("%v, %v; want one arrival", found, err)
		}
		if p.log.Len() > 0 {
			t.Errorf("the log has\n%s", &p.log)
		}
	})
}

type oneMinute struct {
	history.ArrivalStore
	text string
	err  error // error of Read; nil = Read returns the minute
}

func (k oneMinute) Read(_ context.Context, target string, from, _ time.Time) ([]history.StoredMinute, error) {
	return []history.StoredMinute{{Target: target, Minute: from.Truncate(time.Minute), Text: k.text}}, k.err
}

// If a text in Redis is not in the stored format, the error names the target and the minute.
func TestUnreadableArrivalsAreAnError(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	read := func(text string) (string, error) {
		found, err := history.NewArrivals(oneMinute{text: text}, slog.New(slog.DiscardHandler)).Read(t.Context(), "login", at, at.Add(time.Minute))
		return fmt.Sprint(found), err
	}
	if got, err := read("0*3 599"); err != nil || got != "[{2026-01-02 03:04:00 +0000 UTC 3} {2026-01-02 03:04:59.9 +0000 UTC 1}]" {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{"600", "-1", "x", "1*", "1*x", "1*-2", "*2", "1*2*3", "1,2", "99999999999"} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), "login at 2026-01-02T03:04:00Z") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	away := oneMinute{text: "0*3", err: redisdb.ErrDown}
	if found, err := history.NewArrivals(away, slog.New(slog.DiscardHandler)).Read(t.Context(), "login", at, at.Add(time.Minute)); !errors.Is(err, redisdb.ErrDown) || found != nil {
		t.Errorf("without the store: %v, %v", found, err)
	}
}

// Counting a request does not allocate memory, so that it does not slow down a take.
func TestCountingDoesNotAllocate(t *testing.T) {
	a := history.NewArrivals(nil, slog.New(slog.DiscardHandler))
	id := identity(1).ID()
	a.SetTargets(map[captcha.ID]string{id: "login"})
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	// The loop adds 10,000 requests of one minute. About ten of these requests enlarge the list of
	// steps, and AllocsPerRun rounds the average to 0.
	if n := testing.AllocsPerRun(10_000, func() {
		a.Note(id, at)
		at = at.Add(5 * time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
