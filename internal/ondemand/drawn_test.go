package ondemand

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/testkit"
)

// drawnStories is the number of stories of TestDrawnStories, and firstStory is the seed of the first
// story. Example: go test ./internal/ondemand -run TestDrawnStories -stories 500
var (
	drawnStories = flag.Int("stories", 4, "random stories to play")
	firstStory   = flag.Uint64("first-story", 1, "seed of the first story")
)

// In the random stories, callers hang up, replicas stop or die, tasks fail and Redis' clock makes
// steps. There are also outages of Redis, of the claim store and of the service. Each sold task has
// one record, and the ledger accounts for each task. Each token goes to one caller, to the callers
// with one Idempotency-Key or to the sharers of one claim. The name of a failing story contains its
// seed.
func TestDrawnStories(t *testing.T) {
	testkit.WithoutRace(t)
	playDrawn(t, *drawnStories, func(*testing.T) openClaims { return inRedis })
}

// playDrawn plays random stories. The function open prepares the claim store of the stories before
// the bubble begins.
func playDrawn(t *testing.T, stories int, open func(*testing.T) openClaims) {
	t.Helper()
	for seed := *firstStory; seed < *firstStory+uint64(stories); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			claims := open(t)
			play(t, 0, func(t *testing.T, w *scenario) {
				s := &drawnStory{
					t: t, w: w, random: rand.New(rand.NewPCG(seed, 0)), claims: claims,
					holders: map[string]string{}, byKey: map[string]pool.Token{},
				}
				w.service.spread = 10 * time.Second
				for range 3 {
					s.start()
				}
				for range 40 {
					s.step()
				}
				s.settle()
				s.check()
			})
		})
	}
}

type openClaims func(t *testing.T) claimStore

type claimStore struct {
	claims  func(Claims) Claims
	savings func(Savings) Savings
	cut     func() // makes all later calls of the store fail
	close   func()
}

// inRedis keeps the claims in the Redis of the story.
func inRedis(*testing.T) claimStore {
	return claimStore{claims: func(c Claims) Claims { return c }, cut: func() {}, close: func() {}}
}

// drawnStory is one random story.
type drawnStory struct {
	t      *testing.T
	w      *scenario
	random *rand.Rand
	claims openClaims
	frozen freezer
	living []*historian
	calls  sync.WaitGroup

	mu      sync.Mutex
	holders map[string]string     // token -> the caller, key or claim that got it
	byKey   map[string]pool.Token // the last token of each Idempotency-Key
	served  int                   // callers that got a token
}

// mostAhead is the largest difference between Redis' clock and the clock of the replicas, in both
// directions.
const mostAhead = 4500 * time.Millisecond

// historian is a replica that also sends the ends of orders to the history.
type historian struct {
	*replica

	store  *redisstore.Store
	stop   func()
	claims claimStore
}

func (s *drawnStory) start() {
	claims := s.claims(s.t)
	r := s.w.start(doubles{ends: 1000, savings: claims.savings, claims: func(c Claims) Claims { return s.frozen.before(claims.claims(c)) }})
	store := redisstore.New(r.store.DB, redisstore.Options{})
	sender := history.NewSender(r.store.Endings, store, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(s.t.Context())
	var sending sync.WaitGroup
	sending.Go(func() { _ = sender.Run(ctx) })
	s.living = append(s.living, &historian{replica: r, store: store, stop: func() { cancel(); sending.Wait() }, claims: claims})
}

// replaceReplica ends a replica by SIGTERM or SIGKILL, and starts another replica.
func (s *drawnStory) replaceReplica(killed bool) {
	i := s.random.IntN(len(s.living))
	r := s.living[i]
	s.living = append(s.living[:i], s.living[i+1:]...)
	r.stop()
	if killed {
		r.claims.cut()
		s.w.kill(r.replica)
	} else {
		s.w.end(r.replica)
	}
	r.claims.close()
	s.start()
}

func (s *drawnStory) drawTime(limit time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(limit)))
}

// step plays one event and waits until the next event is due.
func (s *drawnStory) step() {
	switch n := s.random.IntN(24); {
	case n < 12:
		s.call(n)
	case n == 12, n == 13:
		s.replaceReplica(n == 12)
	case n == 14:
		s.w.redis.SetDown(true)
		time.Sleep(s.drawTime(8 * time.Second))
		s.w.redis.SetDown(false)
	case n == 15:
		s.frozen.on.Store(true)
		time.Sleep(s.drawTime(8 * time.Second))
		s.frozen.on.Store(false)
	case n == 16:
		share := s.random.Float64()
		s.w.service.with(func() { s.w.service.share = share / 2 })
	case n == 17:
		down := s.random.IntN(2) == 0
		s.w.service.with(func() { s.w.service.down = down })
	case n == 18:
		s.w.ahead.Store(int64(s.drawTime(2*mostAhead) - mostAhead))
	}
	time.Sleep(s.drawTime(6 * time.Second))
}

// call starts callers with equal requests at random replicas. Some of these callers share a solve or
// have an Idempotency-Key, and some hang up.
func (s *drawnStory) call(kind int) {
	page := fmt.Sprint("page-", s.random.IntN(3))
	ask := request(page)
	switch {
	case kind < 5:
		ask = sharing(request("shared-" + page))
	case kind < 8:
		ask.Take.Idempotency = fmt.Sprint(page, " key ", s.random.IntN(3))
	}
	hangUp := s.random.IntN(3) == 0
	for range 1 + s.random.IntN(4) {
		r := s.living[s.random.IntN(len(s.living))]
		patience := 10 * time.Minute
		if hangUp {
			patience = s.drawTime(20 * time.Second)
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		s.calls.Go(func() {
			defer cancel()
			token, err := r.Solve(ctx, ask)
			if err == nil {
				s.serve(token, ask)
			}
		})
	}
}

// serve records which caller, key or claim got a token. It fails the test if another caller, key or
// claim got the same token, or if the same key got two different tokens before the first had
// expired.
func (s *drawnStory) serve(token pool.Token, ask Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	holder, key := fmt.Sprint("caller ", s.served), ask.Take.Idempotency
	switch {
	case ask.Share != nil:
		holder = "claim " + string(ask.Share.Key)
	case key != "":
		holder = "key " + key
		if before := s.byKey[key]; before.Value != token.Value && time.Until(before.Dies) > 2*mostAhead {
			s.t.Errorf("%s got %+v and %+v", holder, before, token)
		}
		s.byKey[key] = token
	}
	if before, handed := s.holders[token.Value]; handed && before != holder {
		s.t.Errorf("%s went to %s and to %s", token.Value, before, holder)
	}
	s.holders[token.Value] = holder
}

// settle waits until each call has its answer. It also waits until each order ends, and until each
// token that a caller left behind expires.
func (s *drawnStory) settle() {
	s.w.service.with(func() { s.w.service.down, s.w.service.share = false, 0 })
	s.calls.Wait()
	time.Sleep(5 * time.Minute) // covers the timeout of a task, two sweeps of the history and a token's life
}

// check compares the tasks of the service with the ledger and with the history.
func (s *drawnStory) check() {
	stock, err := s.living[0].replica.store.Guests.Survey(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	f, sold := stock.Figures, s.w.service.sold()
	out := f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Discarded
	// A lost order may or may not have been sold.
	if int(f.Bought) < sold || int(f.Bought-f.Lost) > sold || out+int64(stock.Fresh) != f.Bought || stock.Orders != 0 || stock.Waiting != 0 {
		s.t.Errorf("the service sold %d tasks; poold counts %d bought and %d ways out, %d orders and %d tickets: %+v", sold, f.Bought, out, stock.Orders, stock.Waiting, f)
	}
	records := map[string]history.Record{}
	ends := map[history.How]int64{}
	for _, status := range []history.Status{history.StatusSolved, history.StatusError} {
		page, err := s.living[0].store.Tasks(s.t.Context(), status, history.Query{Limit: history.MostLimit})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range page.Records {
			if before, twice := records[r.Task]; twice && r.Task != "" {
				s.t.Errorf("task %s has two records: %+v and %+v", r.Task, before, r)
			}
			records[r.Task] = r
			ends[r.How]++
		}
	}
	solved := ends[history.Solved] + ends[history.Discarded]
	if solved != f.Solved || ends[history.Failed] != f.Failed || ends[history.Lost] != f.Lost || solved+f.Failed+f.Lost != f.Bought {
		s.t.Errorf("the history has %v, the ledger %+v", ends, f)
	}
	for value := range s.holders {
		task := value[len("answer of "):]
		if r, known := records[task]; !known || r.How != history.Solved {
			s.t.Errorf("%s was handed out, and its record is %+v", value, r)
		}
	}
	s.t.Logf("%d tasks, %d callers served: %+v", sold, s.served, f)
}
