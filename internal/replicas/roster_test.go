package replicas_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/replicas"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Each replica lists all live replicas with their versions, including a replica without a
// description. A replica whose heartbeats end counts as gone. A replica that is missing only for a
// moment does not count as gone.
func TestRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		var mu sync.Mutex
		var live, gone []string
		setLive := func(ids ...string) {
			mu.Lock()
			live = ids
			mu.Unlock()
			time.Sleep(7 * time.Second)
		}
		began := time.Now()
		open := func(version string) (*replicas.Roster, string) {
			db, err := redisdb.Open(redisdb.Options{Addresses: redistest.BubbleAddress, Dial: redis.Dial, Prefix: "test", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r := replicas.New(db, version, time.Now(), func() []string {
				mu.Lock()
				defer mu.Unlock()
				return live
			}, func(id string) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, id)
			})
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { _ = r.Run(ctx) })
			t.Cleanup(func() { cancel(); running.Wait(); _ = db.Close() })
			return r, db.Replica
		}
		r, one := open("v1")
		time.Sleep(time.Second)
		_, two := open("v2")
		setLive(one, two, "old")
		want := fmt.Sprintf("old  true %s v1 %s v2", one, two)
		if l := r.List(); len(l) != 3 || fmt.Sprint(l[0].ID, " ", l[0].Version, " ", l[0].Started.IsZero(), " ", l[1].ID, " ", l[1].Version, " ", l[2].ID, " ", l[2].Version) != want || !l[1].Started.Equal(began) {
			t.Errorf("%+v, want %s", l, want)
		}
		setLive(one, two)
		setLive(one, two, "old")
		setLive()
		setLive()
		if l := r.List(); l != nil || len(gone) != 0 {
			t.Errorf("while unknown: %v, gone %v", l, gone)
		}
		setLive(one, "old")
		setLive(one, "old")
		if fmt.Sprint(gone) != fmt.Sprintf("[%s %s]", two, two) { // both Rosters of this process report the replica
			t.Errorf("gone: %v", gone)
		}
	})
}
