package permits

import (
	"strconv"
	"testing"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// All replicas know the fault of a provider, and one replica gets the probe.
func testStanding(t *testing.T, o redisdb.Options) {
	o.Prefix = "standings"
	one, two := open(t, o), open(t, o)
	acquire := func(s *Permits, name string, answered time.Duration) Permit {
		t.Helper()
		p, err := s.Acquire(t.Context(), "main", order(name), 9, time.Minute, answered)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	fault := Fault{
		Kind: "account", Code: "ERROR_ZERO_BALANCE", Reason: "no money", Action: "submit", Since: 2 * time.Second, Next: time.Minute, Every: time.Minute,
	}
	if err := one.ReportFault(t.Context(), "main", fault); err != nil {
		t.Fatal(err)
	}
	s, err := two.Standing(t.Context(), "main")
	if err != nil || s.Fault == nil || s.Fault.Since < 2*time.Second || s.Fault.Next <= 50*time.Second {
		t.Fatalf("%+v, %+v, %v", s, s.Fault, err)
	}
	s.Fault.Since, s.Fault.Next = fault.Since, fault.Next
	if *s.Fault != fault {
		t.Errorf("%+v", *s.Fault)
	}
	if p := acquire(two, "a", 0); p.OK || p.Wait <= 50*time.Second || p.Wait > time.Minute {
		t.Errorf("during the fault: %+v", p)
	}
	// If another replica reports an outage, the outage does not replace the fault of the account.
	if err := two.ReportFault(t.Context(), "main", Fault{Kind: "outage", Code: "timeout", Next: time.Second, Every: time.Second}); err != nil {
		t.Fatal(err)
	}
	if waited, err := two.ProbeNow(t.Context(), "main"); err != nil || !waited {
		t.Fatal(waited, err)
	}
	if p := acquire(two, "probe", -1); !p.OK {
		t.Errorf("the probe: %+v", p)
	}
	if p := acquire(one, "b", -1); p.OK || p.Wait <= 50*time.Second {
		t.Errorf("beside the probe: %+v", p)
	}
	// If a probe was not placed, another order may be the probe.
	if err := two.ReleaseUnplaced(t.Context(), "main", order("probe")); err != nil {
		t.Fatal(err)
	}
	if p := acquire(one, "c", -1); !p.OK {
		t.Errorf("after the probe came back: %+v", p)
	}
	// An answer to a call that was sent before the fault does not end the fault.
	if err := two.ReportUp(t.Context(), "main", time.Minute); err != nil {
		t.Fatal(err)
	}
	if s, err := one.Standing(t.Context(), "main"); err != nil || s.Fault == nil || s.Fault.Code != "ERROR_ZERO_BALANCE" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := two.ReportUp(t.Context(), "main", 0); err != nil {
		t.Fatal(err)
	}
	if s, err := one.Standing(t.Context(), "main"); err != nil || s.Fault != nil {
		t.Errorf("after an answer: %+v, %v", s.Fault, err)
	}
	if waited, err := two.ProbeNow(t.Context(), "main"); err != nil || waited {
		t.Errorf("a provider that is up: %v, %v", waited, err)
	}
	// A replica that missed the end of the fault reports the old fault again.
	late := fault
	late.Since, late.Polls = time.Hour, true
	if err := one.ReportFault(t.Context(), "main", late); err != nil {
		t.Fatal(err)
	}
	if s, err := one.Standing(t.Context(), "main"); err != nil || s.Fault != nil {
		t.Errorf("a fault that was over is back: %+v, %v", s.Fault, err)
	}
	fault.Since = 0
	if err := one.ReportFault(t.Context(), "main", fault); err != nil {
		t.Fatal(err)
	}
	if s, err := two.Standing(t.Context(), "main"); err != nil || s.Fault == nil {
		t.Errorf("a new fault is not known: %v", err)
	}
	if err := two.ReportUp(t.Context(), "main", 0); err != nil {
		t.Fatal(err)
	}
	if p := acquire(one, "d", -1); !p.OK {
		t.Errorf("after the fault: %+v", p)
	}
}

// If one replica cannot reach a provider, the other replicas still place orders there.
func TestOutageOfOneReplicaStopsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, one, two *Permits) {
		fault := Fault{Kind: "outage", Code: "unreachable", Next: 10 * time.Second, Every: 10 * time.Second}
		if err := one.ReportFault(t.Context(), "main", fault); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if p, err := two.Acquire(t.Context(), "main", order("a"), 9, time.Minute, 5*time.Second); err != nil || p.OK || p.Wait != 7*time.Second {
			t.Errorf("answered before it: %+v, %v", p, err)
		}
		if p, err := two.Acquire(t.Context(), "main", order("a"), 9, time.Minute, time.Second); err != nil || !p.OK {
			t.Errorf("answered since: %+v, %v", p, err)
		}
		if s, err := one.Standing(t.Context(), "main"); err != nil || s.Fault != nil {
			t.Errorf("%+v, %v", s.Fault, err)
		}
	})
}

// After 20 refused submits in a row a provider gets one submit in 5 s. An accepted submit ends this
// limit.
func TestRefusalsBoundAProvider(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, one, two *Permits) {
		for range MostRefusals {
			if err := one.ReportRefusal(t.Context(), "main"); err != nil {
				t.Fatal(err)
			}
		}
		granted := 0
		for i := range 60 {
			for _, s := range []*Permits{one, two} {
				order := order("o" + strconv.Itoa(i))
				p, err := s.Acquire(t.Context(), "main", order, 99, 500*time.Millisecond, 0)
				if err != nil || p.Refusals != MostRefusals || !p.OK && (p.Wait <= 0 || p.Wait > 5*time.Second) {
					t.Fatalf("%+v, %v", p, err)
				}
				if p.OK && s == one {
					granted++
				}
			}
			time.Sleep(time.Second)
		}
		if granted != 12 {
			t.Errorf("%d submits in a minute, want one in 5 s", granted)
		}
		if err := two.ReportAccepted(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if p, err := one.Acquire(t.Context(), "main", order("later"+strconv.Itoa(i)), 99, time.Minute, 0); err != nil || !p.OK || p.Refusals != 0 {
				t.Errorf("%+v, %v", p, err)
			}
		}
		if ttl := redis.TTL("test:standing:{main}"); ttl != standingKept {
			t.Errorf("it expires in %v", ttl)
		}
	})
}

// While a provider is limited, only one order at a time may be placed there. Only this order can give
// its turn back, and only once. ProbeNow grants the next turn.
func TestTurnsOfABoundedProvider(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, one, two *Permits) {
		for range MostRefusals {
			if err := one.ReportRefusal(t.Context(), "main"); err != nil {
				t.Fatal(err)
			}
		}
		granted := func(s *Permits, name string, want bool) {
			t.Helper()
			p, err := s.Acquire(t.Context(), "main", order(name), 99, time.Minute, 0)
			if err != nil || p.OK != want || !want && p.Wait != 5*time.Second {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
		}
		giveBack := func(s *Permits, name string) {
			t.Helper()
			if err := s.ReleaseUnplaced(t.Context(), "main", order(name)); err != nil {
				t.Fatal(err)
			}
		}
		granted(one, "first", true)
		granted(two, "second", false)
		giveBack(two, "second")
		granted(two, "second", false)
		giveBack(one, "first")
		granted(two, "second", true)
		giveBack(one, "first") // this order has no turn any more
		granted(one, "third", false)
		if waited, err := one.ProbeNow(t.Context(), "main"); err != nil || !waited {
			t.Error(waited, err)
		}
		granted(one, "third", true)
		granted(two, "fourth", false)
	})
}

// Replicas that report the same fault agree on the start of the fault and on the time of the next
// probe. If a provider answers a call and a replica then reports a fault that began after this call
// was sent, the fault is new.
func TestReportsOfOneFault(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, one, two *Permits) {
		report := func(s *Permits, f Fault) {
			t.Helper()
			f.Every = time.Minute
			if err := s.ReportFault(t.Context(), "main", f); err != nil {
				t.Fatal(err)
			}
		}
		standing := func() *Fault {
			t.Helper()
			s, err := one.Standing(t.Context(), "main")
			if err != nil {
				t.Fatal(err)
			}
			return s.Fault
		}
		report(one, Fault{Kind: "account", Code: "first", Since: time.Second, Next: time.Minute})
		time.Sleep(10 * time.Second)
		report(two, Fault{Kind: "account", Code: "second", Next: time.Second})
		if f := standing(); f == nil || f.Since != 11*time.Second || f.Next != 50*time.Second || f.Every != time.Minute || f.Code != "second" {
			t.Errorf("%+v", f)
		}
		report(two, Fault{Kind: "outage", Code: "third"})
		if f := standing(); f == nil || f.Kind != "account" || f.Code != "second" {
			t.Errorf("an outage replaced it: %+v", f)
		}
		if ttl := redis.TTL("test:standing:{main}"); ttl != standingKept {
			t.Errorf("it expires in %v", ttl)
		}
		if err := two.ReportUp(t.Context(), "main", 5*time.Second); err != nil {
			t.Fatal(err)
		}
		report(one, Fault{Kind: "outage", Code: "before", Since: 6 * time.Second})
		if f := standing(); f != nil {
			t.Errorf("a fault that had ended is back: %+v", f)
		}
		report(one, Fault{Kind: "outage", Code: "after", Since: 4 * time.Second})
		if f := standing(); f == nil || f.Code != "after" {
			t.Errorf("a new fault is unknown: %+v", f)
		}
	})
}

// Redis' clock is set back by a day. Orders at a provider that is down or limited do not have to
// wait for a day, and a new fault is recorded.
func TestStandingAfterRedisClockIsSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, s, _ *Permits) {
		wait := func(provider string) time.Duration {
			t.Helper()
			p, err := s.Acquire(t.Context(), provider, order("x"), 9, time.Minute, -1)
			if err != nil || p.OK {
				t.Errorf("%s: %+v, %v", provider, p, err)
			}
			return p.Wait
		}
		for range MostRefusals {
			if err := s.ReportRefusal(t.Context(), "bounded"); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := s.Acquire(t.Context(), "bounded", order("turn"), 9, time.Minute, -1); err != nil || !p.OK {
			t.Fatal(p, err)
		}
		down := Fault{Kind: "account", Code: "c", Since: time.Second, Next: time.Hour, Every: time.Minute}
		for _, provider := range []string{"down", "up"} {
			if err := s.ReportFault(t.Context(), provider, down); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.ReportUp(t.Context(), "up", 0); err != nil {
			t.Fatal(err)
		}
		redis.SetTime(time.Now().Add(-24 * time.Hour))
		if got := wait("bounded"); got != 5*time.Second {
			t.Errorf("bounded for %v", got)
		}
		if got := wait("down"); got != 10*time.Minute {
			t.Errorf("down for %v", got)
		}
		if f, err := s.Standing(t.Context(), "down"); err != nil || f.Fault == nil || f.Fault.Since != 0 {
			t.Errorf("%+v, %v", f.Fault, err)
		}
		if err := s.ReportFault(t.Context(), "up", down); err != nil {
			t.Fatal(err)
		}
		if f, err := s.Standing(t.Context(), "up"); err != nil || f.Fault == nil {
			t.Errorf("the new fault is unknown: %v", err)
		}
	})
}
