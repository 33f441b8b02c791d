package status

import (
	"strings"
	"testing"

	"poold/internal/purchase"
	"poold/internal/refill"
)

// TestMarks: what a person should look at, and no false alarm.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		failing  bool
		verdicts string // + accepted, - rejected
		want     string
	}{
		{false, "", ""}, {false, "----", ""}, {false, "-----", "mostly_rejected"}, {false, "+--+-", "mostly_rejected"},
		{false, "+-+-+", ""}, {false, "---+++", ""}, {false, "++++-----", "mostly_rejected"}, {true, "+++++", "failing"}, {true, "-----", "failing mostly_rejected"},
	} {
		var verdicts []bool
		for _, v := range c.verdicts {
			verdicts = append(verdicts, v == '+')
		}
		if got := marks(refill.Status{Failing: c.failing}, verdicts); got == nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestCallbacksOfAProvider(t *testing.T) {
	set := newSet()
	other := set.Providers[0]
	other.Name, other.CallbackURL = "other", ""
	set.Providers = append(set.Providers, other)
	list := (&Collector{Sources: Sources{CallsPerToken: func(string) float64 { return 0 }}}).providerStatuses([]purchase.Status{{Name: "other"}, {Name: "solver"}, {Name: "gone"}}, set)
	if list[0].Callbacks || !list[1].Callbacks || list[2].Callbacks {
		t.Errorf("%+v", list)
	}
}
