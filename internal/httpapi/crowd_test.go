package httpapi

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// crowd is the stock of many targets, without a server: at each survey one in ten of them
// has other figures than before.
type crowd struct {
	like pool.Stock // of each of them

	mu      sync.Mutex
	members map[captcha.ID]*member
}

type member struct{ number, surveys int }

func (c *crowd) survey(queries []pool.Query) []pool.Stock {
	c.mu.Lock()
	defer c.mu.Unlock()
	stocks := make([]pool.Stock, len(queries))
	for i, q := range queries {
		m := c.members[q.ID]
		if m == nil {
			m = &member{number: len(c.members)}
			c.members[q.ID] = m
		}
		m.surveys++
		turn := (m.number + m.surveys) / 10
		s := c.like
		s.Fresh, s.Outliving, s.Orders = turn%6, turn%6, 5-turn%6
		s.Figures.Requests += int64(turn)
		s.Figures.Hits += int64(turn)
		stocks[i] = s
	}
	return stocks
}

// manyTargets adds so many targets to a file, named t00000 and on.
func manyTargets(set *targets.Set, n int) *targets.Set {
	for i := range n {
		target := set.Targets[0]
		target.Name, target.Owner = fmt.Sprintf("t%05d", i), fmt.Sprintf("team-%d", i%3)
		target.Identity.Pageurl = "https://" + target.Name + ".example.com/"
		target.ID = target.Identity.ID()
		set.Targets = append(set.Targets, target)
	}
	return set
}

// startCrowd serves a file of n targets of which always some change, each with requests in
// so many of the last 60 minutes.
func startCrowd(t testing.TB, n, minutes int) *daemon {
	t.Helper()
	set := manyTargets(sampleSet(), n)
	set.Targets = set.Targets[3:]
	d := start(t, set, nil, nil)
	hour := "6000 5820 0 180 6300 6000"
	for back := range int64(minutes) {
		hour += fmt.Sprintf("|%d 100 97 0 3 105 100", time.Now().Unix()/60-back)
	}
	id := set.Targets[0].ID
	if err := d.stock.redis.Set("captcha:hour:{"+string(id)+"}", hour); err != nil {
		t.Fatal(err)
	}
	d.stock.redis.HSet("captcha:stats:{"+string(id)+"}", strings.Fields("requests 6000 hits 5820 misses 180 bought 6300 solved 6000 spent 6000000000")...)
	stocks, err := d.stock.Store.Survey(t.Context(), []pool.Query{{ID: id, Hour: true}})
	if err != nil {
		t.Fatal(err)
	}
	d.stock.crowd = &crowd{like: stocks[0], members: map[captcha.ID]*member{}}
	return d
}
