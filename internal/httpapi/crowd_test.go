package httpapi

import (
	"fmt"
	"net"
	"strings"
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
		s.Figures.Requests += int64(turn)
		s.Figures.Hits += int64(turn)
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
	hour := "6000 5820 0 180 6300 6000"
	for back := range int64(minutes) {
		hour += fmt.Sprintf("|%d 100 97 0 3 105 100", time.Now().Unix()/60-back)
	}
	id := set.Targets[0].ID
	noError(t, d.stock.redis.Set("captcha:hour:{"+string(id)+"}", hour))
	d.stock.redis.HSet("captcha:stats:{"+string(id)+"}", strings.Fields("requests 6000 hits 5820 misses 180 bought 6300 solved 6000 spent 6000000000")...)
	stocks, err := d.stock.Store.LookAll(t.Context(), []pool.Query{{ID: id, Hour: true}})
	noError(t, err)
	d.stock.crowd = &crowd{like: stocks[0], members: map[captcha.ID]*member{}}
	return d
}
