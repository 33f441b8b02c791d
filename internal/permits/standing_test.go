package permits

import (
	"strconv"
	"testing"
	"time"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// A fault of a provider is known to all replicas, and one of them gets the probe.
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
	// An outage that another replica meets now is not the cause.
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
	// A probe that was not placed is another order's.
	if err := two.GiveBack(t.Context(), "main", order("probe")); err != nil {
		t.Fatal(err)
	}
	if p := acquire(one, "c", -1); !p.OK {
		t.Errorf("after the probe came back: %+v", p)
	}
	// An answer to a call that was sent before the fault proves nothing.
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
	// A replica that has not heard of the end learns that polls are answered.
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

// An outage that one replica meets stops no replica that reaches the provider.
func TestAnOutageOfOneReplica(t *testing.T) {
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

// After 20 refused submits in a row a provider gets one in 5 s; an accepted one ends that.
func TestRefusalsOfAProvider(t *testing.T) {
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
		if ttl := redis.TTL("test:standing:{main}"); ttl <= 23*time.Hour {
			t.Errorf("it expires in %v", ttl)
		}
	})
}
