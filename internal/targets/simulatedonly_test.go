package targets

import (
	"strings"
	"testing"
)

// A target with `simulated_only: true` is withheld from real providers, but not from simulated
// providers. Only targets can have the key, and the defaults cannot, so that no target is withheld
// by mistake.
func TestSimulatedOnlyIsWithheldFromRealProviders(t *testing.T) {
	marked := minimal() + "    simulated_only: true\n"
	for name, c := range map[string]struct {
		file     string
		withheld bool
	}{
		"a real provider":      {marked, true},
		"without the key":      {minimal() + "    simulated_only: false\n", false},
		"a simulated provider": {"providers: [{name: own, api: simulated}]\ntargets:\n" + strings.SplitN(marked, "targets:\n", 2)[1], false},
		"no provider":          {"targets:\n" + strings.SplitN(marked, "targets:\n", 2)[1], false},
	} {
		target := mustParse(t, c.file, References{}).Targets[0]
		if target.Withheld != c.withheld || (target.Halted() != "") != c.withheld {
			t.Errorf("%s: withheld %v, halted %q", name, target.Withheld, target.Halted())
		}
	}
	_, err := Parse("pools.yaml", []byte("defaults: {simulated_only: true}\n"+minimal()), References{})
	if err == nil || !strings.Contains(err.Error(), "belongs in each target, not in the defaults") {
		t.Errorf("in the defaults: %v", err)
	}
}
