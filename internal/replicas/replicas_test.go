package replicas_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/replicas"
	"poold/internal/testkit"
)

// A name contains the version and the start of its replica. The oldest replica comes first, after those without a
// start.
func TestList(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	name := func(version string, at time.Time) string {
		r := replicas.New(version)
		r.Started, r.Address = at, "host:8080"
		return r.Name()
	}
	names := []string{name("v2", began.Add(time.Hour)), name("v1@a", began), "another"}
	list := replicas.List(names)
	testkit.Equal(t, "the list",
		fmt.Sprint(list[0].ID, " ", list[0].Started.IsZero(), " ", list[1].Version, " ", list[2].Version),
		"another true v1_a v2")
	if !list[1].Started.Equal(began) || list[1].String() != list[1].ID+" (host:8080)" || list[0].String() != "another" ||
		list[1].ID == list[2].ID || replicas.List(nil) != nil {
		t.Errorf("%+v", list)
	}
}

// A replica whose beats end counts as gone, once. A replica that is missing only for a moment does not, nor does any
// while the replicas are unknown.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live atomic.Pointer[[]string]
		setLive := func(pass time.Duration, names ...string) {
			live.Store(&names)
			time.Sleep(pass)
		}
		var gone []string
		live.Store(&[]string{"one@v@", "two@v@"})
		stop := testkit.Run(t, func(ctx context.Context) error {
			return replicas.Watch(ctx, func() []string { return *live.Load() },
				func(r replicas.Replica) { gone = append(gone, r.ID) })
		})
		time.Sleep(3 * time.Second)
		setLive(7*time.Second, "one@v@")
		setLive(3*time.Second, "one@v@", "two@v@")
		setLive(time.Minute)
		synctest.Wait()
		testkit.Equal(t, "replicas gone", len(gone), 0)
		setLive(3*time.Second, "one@v@", "two@v@")
		setLive(time.Minute, "one@v@")
		stop()
		testkit.Equal(t, "gone", fmt.Sprint(gone), "[two]")
	})
}
