package pool

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func testReportsCountOnce(t *testing.T, o Options) {
	o.Prefix = "reports"
	s, other, id := open(t, o), open(t, o), identity("report")
	order := Ref{id, "a"}
	place(t, s, id, "a")
	if how, err := s.Settle(t.Context(), Landing{
		Ref: order, Provider: "p", Task: "t|1", Value: "v", SincePlaced: -10 * time.Second, Lifetime: time.Minute,
	}); err != nil || how != Ended {
		t.Fatal(how, err)
	}
	token, err := s.Take(t.Context(), Request{ID: id, Caller: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []struct{ token, caller string }{
		{token.ID, "bob"}, {"a", "alice"}, {"a.", "alice"}, {"", "alice"}, {"b" + token.ID[1:], "alice"}, {token.ID + "x", "alice"},
	} {
		if _, err := s.Report(t.Context(), id, forged.token, forged.caller, true); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("%+v: %v", forged, err)
		}
		if err := s.Sold(t.Context(), id, forged.token, forged.caller); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("sold %+v: %v", forged, err)
		}
	}
	if err := other.Sold(t.Context(), identity("x"), token.ID, "alice"); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("sold for another identity: %v", err)
	}
	if err := other.Sold(t.Context(), id, token.ID, "alice"); err != nil {
		t.Errorf("sold: %v", err)
	}
	// The first report is for another identity, the second is valid, and the third repeats the second.
	if _, err := other.Report(t.Context(), identity("x"), token.ID, "alice", true); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("for another identity: %v", err)
	}
	sale, err := other.Report(t.Context(), id, token.ID, "alice", false)
	if err != nil || sale.Provider != "p" || sale.Task != "t|1" || sale.Age < 10*time.Second || sale.Age > 15*time.Second {
		t.Errorf("%+v, %v", sale, err)
	}
	if _, err := s.Report(t.Context(), id, token.ID, "alice", true); !errors.Is(err, ErrReported) {
		t.Errorf("the second report: %v", err)
	}
	got := look(t, s, id)
	if got.Figures.Rejected != 1 || got.Figures.Accepted != 0 || len(got.Verdicts) != 1 || got.Verdicts[0] {
		t.Errorf("%+v", got)
	}
}

// Each caller that shares a token has its own ID for the token, the same at each replica. Only one
// report counts, even after the guest retired.
func testSharedTokensAreReportedOnce(t *testing.T, o Options) {
	o.Prefix = "shared names"
	s, other, id := open(t, o), open(t, o), identity("shared")
	use(t, s, id)
	stock(t, s, id, 1, 0, time.Minute)
	token, err := s.Take(t.Context(), Request{ID: id, Caller: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	name := func(caller string) string {
		t.Helper()
		name, err := other.TokenID(t.Context(), token.Order, caller)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	bob := name("bob")
	if name("alice") != token.ID || bob == token.ID || name("bob") != bob {
		t.Errorf("names %q, %q; taken as %q", name("alice"), bob, token.ID)
	}
	makeDue(t, s, id)
	retire(t, s, 1)
	if _, err := s.Report(t.Context(), id, bob, "alice", true); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("with another's name: %v", err)
	}
	use(t, s, id)
	if sale, err := s.Report(t.Context(), id, bob, "bob", true); err != nil || sale.Provider != "p" {
		t.Errorf("%+v, %v", sale, err)
	}
	if _, err := s.Report(t.Context(), id, token.ID, "alice", false); !errors.Is(err, ErrReported) {
		t.Errorf("the second report: %v", err)
	}
	makeDue(t, s, id)
	retire(t, s, 1)
	if f := survey(t, s).Figures; f.Accepted != 1 || f.Rejected != 0 || f.Solved != 1 {
		t.Errorf("%+v", f)
	}
	for _, key := range keysWith(t, s, string(id)) {
		if strings.Contains(key, ":stats:") || strings.Contains(key, ":verdicts:") {
			t.Errorf("%s is left", key)
		}
	}
}
