package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// Redis' clock is set back. If the clock jumps by at most the margin, no token outlives its true
// life. After a longer jump the births of tokens are in the future, so the age of the whole stock is
// unknown and no token is handed out.
func TestRedisClockIsSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		back  time.Duration
		stays bool
	}{
		"within the margin": {30 * time.Second, true},
		"beyond it":         {50 * time.Second, false},
		"by a day":          {24 * time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := redistest.InBubble(t)
			s, id := open(t, Options{Addresses: "redis://bubble", Dial: server.Dial}), identity("clock")
			const lifetime, margin = 2 * time.Minute, 40 * time.Second
			limited := Request{ID: id, Margin: margin, Rate: 1, RatePer: time.Minute}
			stock(t, s, id, 1, 0, lifetime)
			if _, err := s.Take(t.Context(), limited); err != nil {
				t.Fatal(name, err)
			}
			stock(t, s, id, 1, 70*time.Second, lifetime) // after the jump, this token seems young
			stock(t, s, id, 1, 5*time.Second, lifetime)
			server.SetTime(time.Now().Add(-c.back))
			token, err := s.Take(t.Context(), Request{ID: id, Margin: margin})
			got, _ := s.Look(t.Context(), id, margin, 0)
			if c.stays {
				if err != nil || got.Fresh != 1 || token.TTL-c.back <= 0 {
					t.Errorf("%s: took %+v, %v; %+v", name, token, err, got)
				}
			} else if !isEmpty(err) || got.Fresh != 0 || got.Figures.Expired != 2 {
				t.Errorf("%s: took %+v, %v; %+v", name, token, err, got)
			}
			if f := got.Figures; f.Bought != f.Hits+f.Expired+int64(got.Fresh) {
				t.Errorf("%s: the books: %+v", name, got)
			}
			// Later purchases count as usual. Earlier hand-outs, whose times are now in the future, do not
			// count for the rate.
			stock(t, s, id, 2, 0, lifetime)
			if _, err := s.Take(t.Context(), limited); err != nil {
				t.Errorf("%s: bought afterwards: %v", name, err)
			}
		})
	}
}

// Redis' clock is set back. A replica that died before the step causes no delay: its tickets are
// skipped, its orders are adopted, and it does not count as alive. A step of up to 10 s changes
// nothing, because the clocks of two nodes may differ by as much.
func TestDeadReplicasAfterRedisClockIsSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		back    time.Duration
		forgets bool
	}{"within the nodes' difference": {9 * time.Second, false}, "by an hour": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := redistest.InBubble(t)
				o := Options{Addresses: "redis://bubble", Dial: server.Dial, Prefix: "set back"}
				dead, s, id := open(t, o), open(t, o), identity("set back")
				ctx, k := t.Context(), s.keys(id)
				for _, order := range []string{"marked", "unknown"} {
					place(t, dead, id, order)
					expect(t, true)(dead.MarkSubmitting(ctx, Ref{id, order}))
				}
				expect(t, true)(dead.Unknown(ctx, Ref{id, "unknown"}, time.Minute))
				_, _, err := dead.Heartbeat(ctx, 5*time.Second)
				must(t, err)
				must(t, s.db.Slow.ZAdd(ctx, k.tickets, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "0:dead:1"}).Err())
				must(t, s.db.Slow.ZAdd(ctx, k.seen, redis.Z{Score: float64(time.Now().UnixMilli()), Member: "0:dead:1"}).Err())
				alive := parkOne(t, s, Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 9})

				server.SetTime(time.Now().Add(-c.back))
				_, live, err := s.Heartbeat(ctx, 5*time.Second)
				if forgotten := len(live) == 1; err != nil || forgotten != c.forgets {
					t.Errorf("alive: %q, %v", live, err)
				}
				adopted, _, err := s.Adopt(ctx, id, []string{"marked", "unknown"})
				if err != nil || c.forgets != (len(adopted) == 1 && adopted[0].Order == "marked") || !c.forgets && len(adopted) > 0 {
					t.Errorf("adopted %+v, %v", adopted, err)
				}
				if got := look(t, s, id); c.forgets && got.Waiting > 1 || !c.forgets && got.Waiting != 2 {
					t.Errorf("%d tickets", got.Waiting)
				}
				if !c.forgets {
					s.EndWaits()
					<-alive
					return
				}
				stock(t, s, id, 1, 0, time.Minute)
				began := time.Now()
				if got := <-alive; got.err != nil || got.token.Source != FromWait || time.Since(began) > 2*time.Second {
					t.Errorf("behind the dead replica's ticket, after %v: %+v", time.Since(began), got)
				}
			})
		})
	}
}

// The birth of a token is never in the future, even if Landing.SincePlaced leads to a future time.
func TestBirthsAreNotInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		place(t, s, id, "a")
		time.Sleep(5 * time.Second)
		land(t, s, id, "a", -time.Hour, 100*time.Second)
		if token := take(t, s, Request{ID: id}, 1)[0]; token.TTL != 100*time.Second || !token.Born.Equal(time.Now()) {
			t.Errorf("born %v, lives for %v", token.Born, token.TTL)
		}
	})
}
