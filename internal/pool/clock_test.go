package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// Redis' clock is set back. A jump within the margin lets no token outlive its true
// life. A longer one shows in tokens that are born in the future: then nobody knows
// how old any of the stock is, and none of it is handed out.
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
			stock(t, s, id, 1, 70*time.Second, lifetime) // old enough to look young after the jump
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
			// What is bought from here on counts as ever, and a rate is not stuck until
			// the clock is where it was.
			stock(t, s, id, 2, 0, lifetime)
			if _, err := s.Take(t.Context(), limited); err != nil {
				t.Errorf("%s: bought afterwards: %v", name, err)
			}
		})
	}
}
