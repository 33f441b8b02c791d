package pool

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A token is shared: each caller has a name of its own for it, at any replica, and one
// of them reports, also when the guest has gone.
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
		name, err := other.Name(t.Context(), token.Order, caller)
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
