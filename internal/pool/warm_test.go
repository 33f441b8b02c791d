package pool

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func warm(t testing.TB, s *replica, id captcha.ID, windows ...Window) {
	t.Helper()
	for _, w := range windows {
		if err := s.Warm(t.Context(), id, w, WindowLimit{}); err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
	}
}

// checkWindows compares the stored windows with the wanted windows. The argument began is a time
// before the windows were requested. The stored durations may be shorter by up to
// time.Since(began).
func checkWindows(t testing.TB, got, want []Window, began time.Time) {
	t.Helper()
	late := time.Since(began) + 2*time.Millisecond
	alike := func(got, want time.Duration) bool {
		return got <= want+2*time.Millisecond && got >= want-late
	}
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i].Tokens == want[i].Tokens && alike(got[i].In, max(0, want[i].In)) && alike(got[i].Left, want[i].Left)
	}
	if !ok {
		t.Errorf("within %v: windows %+v, want %+v", late, got, want)
	}
}

func testWindowsAreListedUntilTheyEnd(t *testing.T, o Options) {
	s, id, other := open(t, o), identity("warm"), identity("warm other")
	// The identity is still unknown at this point.
	warm(t, s, id, Window{})
	if got := look(t, s, id).Windows; got != nil {
		t.Fatalf("without any: %+v", got)
	}
	for _, w := range []Window{{1, 0, 0}, {1, -time.Minute, -time.Second}, {1, time.Minute, time.Minute}, {1, time.Hour, time.Minute}} {
		warm(t, s, id, w) // a window that is over or never begins
	}
	if got := look(t, s, id).Windows; got != nil {
		t.Errorf("windows that never run: %+v", got)
	}
	if err := s.Warm(t.Context(), id, Window{Tokens: -1, Left: time.Minute}, WindowLimit{}); err == nil {
		t.Error("less than no tokens were accepted")
	}
	began := time.Now()
	asked := []Window{{2, 0, time.Second}, {4, time.Second, time.Hour}}
	warm(t, s, id, asked[1], asked[0])
	checkWindows(t, look(t, s, id).Windows, asked, began)
	if ttl := s.db.Slow.PTTL(t.Context(), s.keys(id).warm).Val(); ttl < 59*time.Minute {
		t.Errorf("the later window is forgotten in %v", ttl)
	}
	stocks, err := s.LookAll(t.Context(), []Query{{ID: other}, {ID: id}})
	if err != nil || stocks[0].Windows != nil {
		t.Fatalf("%+v, %v", stocks, err)
	}
	checkWindows(t, stocks[1].Windows, asked, began)

	testkit.Within(t, 20*time.Second, "the end of the first", func() bool { return len(look(t, s, id).Windows) == 1 })
	if took := time.Since(began); took < asked[0].Left-2*time.Millisecond { // Redis counts whole milliseconds
		t.Errorf("a window of %v was over after %v", asked[0].Left, took)
	}
	if n := s.db.Slow.ZCard(t.Context(), s.keys(id).warm).Val(); n != 1 {
		t.Errorf("%d windows are kept", n)
	}
	testkit.Within(t, 20*time.Second, "the begin of the second", func() bool { return look(t, s, id).Windows[0].In <= 0 })
	if took := time.Since(began); took < asked[1].In-2*time.Millisecond {
		t.Errorf("a window in %v ran after %v", asked[1].In, took)
	}
	stock(t, s, id, 1, 0, time.Minute)
	if _, err := s.Flush(t.Context(), id, 0); err != nil || len(look(t, s, id).Windows) != 1 {
		t.Errorf("a flush ended a window: %v", err)
	}
	warm(t, s, id, Window{Tokens: 9, In: time.Minute, Left: time.Hour}, Window{Tokens: 0, Left: time.Minute})
	if got := look(t, s, id).Windows; got != nil {
		t.Errorf("after all were ended: %+v", got)
	}
}

func testWindowsReplaceWindowsTheyCover(t *testing.T, o Options) {
	const m = time.Minute
	s := open(t, o)
	for name, c := range map[string]struct{ asked, want []Window }{
		"the same again":       {[]Window{{5, 0, 10 * m}, {5, 0, 10 * m}, {5, 0, 10 * m}}, []Window{{5, 0, 10 * m}}},
		"the same, to come":    {[]Window{{5, 5 * m, 10 * m}, {5, 5 * m, 10 * m}}, []Window{{5, 5 * m, 10 * m}}},
		"a longer one":         {[]Window{{5, 0, 10 * m}, {5, 0, 20 * m}}, []Window{{5, 0, 20 * m}}},
		"a shorter one":        {[]Window{{5, 0, 20 * m}, {5, 0, 10 * m}}, []Window{{5, 0, 20 * m}}},
		"more tokens":          {[]Window{{5, 0, 10 * m}, {7, 0, 10 * m}}, []Window{{7, 0, 10 * m}}},
		"fewer tokens":         {[]Window{{7, 0, 20 * m}, {5, 5 * m, 10 * m}}, []Window{{7, 0, 20 * m}}},
		"began long ago":       {[]Window{{5, -60 * m, 10 * m}, {5, 0, 20 * m}}, []Window{{5, 0, 20 * m}}},
		"an earlier one":       {[]Window{{5, 5 * m, 10 * m}, {5, 4 * m, 10 * m}}, []Window{{5, 4 * m, 10 * m}}},
		"several at once":      {[]Window{{1, 5 * m, 10 * m}, {2, 6 * m, 11 * m}, {9, 7 * m, 40 * m}, {3, m, 30 * m}}, []Window{{3, m, 30 * m}, {9, 7 * m, 40 * m}}},
		"overlapping":          {[]Window{{5, 0, 10 * m}, {5, 5 * m, 15 * m}}, []Window{{5, 0, 10 * m}, {5, 5 * m, 15 * m}}},
		"overlapping, earlier": {[]Window{{5, 5 * m, 15 * m}, {6, 0, 10 * m}}, []Window{{6, 0, 10 * m}, {5, 5 * m, 15 * m}}},
		"more, for less long":  {[]Window{{5, 0, 20 * m}, {7, 0, 10 * m}}, []Window{{7, 0, 10 * m}, {5, 0, 20 * m}}},
		"apart":                {[]Window{{5, 20 * m, 30 * m}, {5, 0, 10 * m}}, []Window{{5, 0, 10 * m}, {5, 20 * m, 30 * m}}},
		// A repeated call reaches Redis a little later, or a little earlier.
		"again, later":     {[]Window{{5, m, 10 * m}, {5, m + time.Second, 10*m + time.Second}}, []Window{{5, m, 10*m + time.Second}}},
		"again, earlier":   {[]Window{{5, m, 10 * m}, {5, m - time.Second, 10*m - time.Second}}, []Window{{5, m - time.Second, 10 * m}}},
		"much later":       {[]Window{{5, m, 10 * m}, {5, m + 9*time.Second, 10*m + 9*time.Second}}, []Window{{5, m, 10 * m}, {5, m + 9*time.Second, 10*m + 9*time.Second}}},
		"more, later":      {[]Window{{5, m, 10 * m}, {6, m + time.Second, 10*m + time.Second}}, []Window{{6, m, 10*m + time.Second}}},
		"fewer, later":     {[]Window{{6, m, 10 * m}, {5, m + time.Second, 10*m + time.Second}}, []Window{{6, m, 10 * m}, {5, m + time.Second, 10*m + time.Second}}},
		"longer, later":    {[]Window{{5, m, 10 * m}, {5, m + time.Second, 20 * m}}, []Window{{5, m, 20 * m}}},
		"shorter, earlier": {[]Window{{5, m, 20 * m}, {5, m - time.Second, 10 * m}}, []Window{{5, m - time.Second, 20 * m}}},
		"one after other":  {[]Window{{5, m, m + 300*time.Millisecond}, {5, m + 800*time.Millisecond, m + time.Second}}, []Window{{5, m, m + 300*time.Millisecond}, {5, m + 800*time.Millisecond, m + time.Second}}},
		"joined, covering": {[]Window{{3, m, 10 * m}, {5, 2 * m, 9 * m}, {5, 2*m + time.Second, 9*m + time.Second}, {5, 0, 20 * m}}, []Window{{5, 0, 20 * m}}},
	} {
		began, id := time.Now(), identity("cover "+name)
		warm(t, s, id, c.asked...)
		checkWindows(t, look(t, s, id).Windows, c.want, began)
		if t.Failed() {
			t.Fatalf("in the case %q", name)
		}
	}

	// A window that began an hour ago counts as if it began now.
	began, id := time.Now(), identity("cover running")
	running := redis.Z{Score: float64(began.Add(5 * m).UnixMilli()), Member: fmt.Sprintf("%d|5", began.Add(-time.Hour).UnixMilli())}
	must(t, s.db.Slow.ZAdd(t.Context(), s.keys(id).warm, running).Err())
	warm(t, s, id, Window{5, 0, 20 * m})
	got := look(t, s, id).Windows
	if len(got) != 1 || got[0].In > -time.Hour {
		t.Fatalf("after a longer one: %+v", got)
	}
	got[0].In = 0
	checkWindows(t, got, []Window{{5, 0, 20 * m}}, began)
}

func testWindowsAreLimited(t *testing.T, o Options) {
	const m = time.Minute
	s, id := open(t, o), identity("hundred")
	for i := range time.Duration(100) {
		warm(t, s, id, Window{Tokens: 5, In: 10 * i * m, Left: 10*i*m + 5*m})
	}
	further := Window{Tokens: 5, In: 2000 * m, Left: 2005 * m} // overlaps no other window
	refused := func(when string) {
		t.Helper()
		if err := s.Warm(t.Context(), id, further, WindowLimit{}); !errors.Is(err, ErrWindows) {
			t.Errorf("%s: %v", when, err)
		}
		if n := len(look(t, s, id).Windows); n != 100 {
			t.Errorf("%s: %d windows", when, n)
		}
	}
	refused("one too many")
	warm(t, s, id, Window{Tokens: 4, In: 11 * m, Left: 13 * m}, Window{Tokens: 6, In: 9 * m, Left: 16 * m})
	refused("after one that is covered and one that covers one")
	warm(t, s, identity("hundred other"), further)
	warm(t, s, id, Window{Tokens: 5, In: 19 * m, Left: 36 * m}, further)
	further.In, further.Left = 3000*m, 3005*m
	refused("after one that covers two")

	// A window that has ended makes room, even without a look.
	k := s.keys(id).warm
	first, err := s.db.Slow.ZRange(t.Context(), k, 0, 0).Result()
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	over := redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()), Member: first[0]}
	must(t, s.db.Slow.ZAdd(t.Context(), k, over).Err())
	warm(t, s, id, further)
	further.In, further.Left = 4000*m, 4005*m
	refused("after one was over")
	warm(t, s, id, Window{})
	if got := look(t, s, id).Windows; got != nil {
		t.Errorf("after all were ended: %+v", got)
	}
}

// A caller with a limit has at most that number of windows. The caller cannot change the windows of
// other callers and takes no room from callers without a limit.
func testWindowsOfACallerWithALimit(t *testing.T, o Options) {
	const m = time.Minute
	s, id := open(t, o), identity("limited")
	next := time.Duration(0)
	further := func() Window { // returns a window that overlaps no other window
		next++
		return Window{Tokens: 5, In: 10 * next * m, Left: 10*next*m + 5*m}
	}
	asks := func(when string, w Window, limit WindowLimit, allowed bool) {
		t.Helper()
		if err := s.Warm(t.Context(), id, w, limit); (err == nil) != allowed || err != nil && !errors.Is(err, ErrWindows) {
			t.Errorf("%s: %v", when, err)
		}
	}
	one, other, free := WindowLimit{"one", 3}, WindowLimit{"other", 3}, WindowLimit{}
	first := further()
	asks("its first", first, one, true)
	asks("its second", further(), one, true)
	asks("its third", further(), one, true)
	asks("its fourth", further(), one, false)
	asks("another's first", further(), other, true)
	asks("one without a limit", further(), free, true)
	asks("the same again", first, one, true)
	first.Left += m
	asks("one in place of its own", first, one, true)
	asks("its fourth, after that", further(), one, false)
	first.Left += m
	asks("a covering one of somebody else", first, free, true)
	asks("in the place of that", further(), one, true)
	asks("its fourth now", further(), one, false)
	if ttl, life := s.db.Slow.PTTL(t.Context(), s.keys(id).warmers).Val(), s.db.Slow.PTTL(t.Context(), s.keys(id).warm).Val(); ttl <= 0 || (ttl-life).Abs() > time.Second {
		t.Errorf("known for %v whose the windows are, which are kept for %v", ttl, life)
	}

	// A replica with an older version of poold removes a window, but not the entry of its caller.
	mine := s.db.Slow.HGetAll(t.Context(), s.keys(id).warmers).Val()
	for member, caller := range mine {
		if caller == "one" {
			s.db.Slow.ZRem(t.Context(), s.keys(id).warm, member)
			break
		}
	}
	asks("after an older replica ended one", further(), one, true)
	asks("and then", further(), one, false)
	if got := s.db.Slow.HLen(t.Context(), s.keys(id).warmers).Val(); got != 4 {
		t.Errorf("it is known of %d windows whose they are, want 3 and 1", got)
	}

	for i := range 100 {
		asks("by many", further(), WindowLimit{fmt.Sprint(i), 3}, len(look(t, s, id).Windows) < 100)
	}
	for range 98 { // 2 windows without a limit already exist
		asks("by one without a limit", further(), free, true)
	}
	asks("the 101st without a limit", further(), free, false)
	asks("with a limit, while all is full", further(), other, false)
	warm(t, s, id, Window{})
	asks("after all were ended", further(), one, true)
	if got := s.db.Slow.HLen(t.Context(), s.keys(id).warmers).Val(); got != 1 {
		t.Errorf("of the windows that were ended it is known whose they were: %d", got)
	}
}

// All replicas see a window and get a message about each change. The replica that made the window
// needs no message.
func testWindowsReachAllReplicas(t *testing.T, o Options) {
	id, ready := identity("replicas"), identity("replicas ready")
	var here, there, listens atomic.Int64
	o.Prefix, o.Log = "replicas", slog.New(slog.DiscardHandler)
	o.OnChange = func(captcha.ID) { here.Add(1) }
	one, err := openStore(o) // this store gets no messages, because Run is not called
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	o.OnChange = func(changed captcha.ID) {
		switch changed {
		case id:
			there.Add(1)
		case ready:
			listens.Add(1)
		}
	}
	two := open(t, o)
	testkit.Within(t, 20*time.Second, "the other replica to listen", func() bool {
		_ = one.db.Slow.Publish(t.Context(), one.db.Channel(), string(ready)).Err()
		return listens.Load() > 0
	})
	began := time.Now()
	for i, w := range []Window{{3, 0, time.Minute}, {3, 0, time.Second}, {}} { // a new window, a covered window, the removal of all
		warm(t, one, id, w)
		if n := here.Load(); n != int64(i+1) {
			t.Errorf("%+v: told %d times where it was made", w, n)
		}
		testkit.Within(t, 20*time.Second, "the other replica to be told", func() bool { return there.Load() == int64(i+1) })
		var want []Window
		if w.Tokens > 0 {
			want = []Window{{3, 0, time.Minute}}
		}
		checkWindows(t, look(t, two, id).Windows, want, began)
	}
}

// go-redis retries a command whose reply was lost, and callers retry as well. Only one window is
// left.
func testRetriedWindowsAreOne(t *testing.T, o Options) {
	plain := open(t, o)
	thief := redistest.NewThief(0.4, plain.script("warm").Hash())
	o.Prefix, o.Dial = plain.prefix, thief.Over(o.Dial)
	s, id := open(t, o), identity("again")
	began := time.Now()
	var want []Window
	for i := range 5 {
		in := time.Duration(10*i) * time.Minute
		w := Window{Tokens: 9 - i, In: in, Left: in + 5*time.Minute}
		want = append(want, w)
		for range 8 {
			for err := error(redisdb.ErrDown); errors.Is(err, redisdb.ErrDown); {
				if err = s.Warm(t.Context(), id, w, WindowLimit{}); err != nil && !errors.Is(err, redisdb.ErrDown) {
					t.Fatal(err)
				}
			}
		}
	}
	if thief.Stolen() < 10 {
		t.Errorf("only %d answers were lost", thief.Stolen())
	}
	got := look(t, plain, id).Windows
	// Each window ends at the time that its last call requested, or a little later if a reply was lost.
	if len(got) != len(want) {
		t.Fatalf("%d answers lost, windows %+v", thief.Stolen(), got)
	}
	checkWindows(t, got, want, began)
}

// A window is listed until the last millisecond before its end.
func TestWindowsEndToTheMillisecond(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		must(t, s.Warm(t.Context(), id, Window{Tokens: 5, Left: time.Minute}, WindowLimit{}))
		time.Sleep(time.Minute - time.Millisecond)
		if got := look(t, s, id).Windows; len(got) != 1 || got[0] != (Window{Tokens: 5, In: time.Millisecond - time.Minute, Left: time.Millisecond}) {
			t.Errorf("a millisecond before: %+v", got)
		}
		time.Sleep(time.Millisecond)
		if got := look(t, s, id).Windows; len(got) != 0 {
			t.Errorf("at its end: %+v", got)
		}
	})
}
