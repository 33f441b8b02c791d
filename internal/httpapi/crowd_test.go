package httpapi

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// crowd is the stock of many targets, without a server. At each survey, one target in ten has new
// figures.
type crowd struct {
	like pool.Stock // stock of each target

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
		s.Counters.Hits += int64(turn)
		stocks[i] = s
	}
	return stocks
}

// manyTargets adds n targets to a Set. The names of the targets are t00000, t00001 and so on.
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

// startCrowd starts a daemon whose n targets have the stock of a crowd. The argument minutes is the
// number of minutes with requests in the last hour.
func startCrowd(t testing.TB, n, minutes int) *daemon {
	t.Helper()
	return startCrowdBehind(t, n, minutes, nil)
}

// startCrowdBehind is startCrowd with the function wrap for each connection; nil = none.
func startCrowdBehind(t testing.TB, n, minutes int, wrap func(net.Conn) net.Conn) *daemon {
	t.Helper()
	set := manyTargets(sampleSet(), n)
	set.Targets = set.Targets[3:]
	d := start(t, set, wrap, nil)
	like := pool.Stock{Counts: pool.Counts{Counters: pool.Counters{Hits: 5820, Missed: 180, Bought: 6300, Solved: 6000, Spent: 6e9}, NextExpiry: -1, At: time.Now()}}
	for back := minutes - 1; back >= 0; back-- {
		like.Minutes = append(like.Minutes, pool.Period{
			At: time.Now().Truncate(time.Minute).Add(-time.Duration(back) * time.Minute), Counters: pool.Counters{Hits: 97, Missed: 3, Bought: 105, Solved: 100},
		})
	}
	d.stock.crowd = &crowd{like: like, members: map[captcha.ID]*member{}}
	return d
}
