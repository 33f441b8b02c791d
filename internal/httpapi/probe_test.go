package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"poold/internal/httpapi/kernel"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
)

// TestProbeOfAProvider: an operator gets the state after the probe; a name that is not in the
// file, a key without the right, and a Redis that is away have their answers.
func TestProbeOfAProvider(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.buyer.probe = func(name string) (purchase.Status, error) {
		switch name {
		case "main":
			return purchase.Status{Name: name, State: provider.State{Kind: provider.StateDown, Reason: "ERROR_ZERO_BALANCE", Remedy: "top up the balance"}}, nil
		case "away":
			return purchase.Status{Name: name}, fmt.Errorf("probing: %w", redisdb.ErrDown)
		}
		return purchase.Status{}, purchase.ErrUnknownProvider
	}
	a := d.ask(t, "POST", "/providers/main/probe", bearer(keyAll))
	if want := `{"name":"main","state":"down","reason":"ERROR_ZERO_BALANCE","remedy":"top up the balance"}`; a.status != 200 || strings.TrimSpace(a.body) != want {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(d.logged.String(), `"msg":"a provider was probed","provider":"main","key":"all","state":"down"`) {
		t.Errorf("the log does not say who probed: %s", d.logged)
	}
	checkProblem(t, "an unknown provider", d.ask(t, "POST", "/providers/other/probe", bearer(keyAll)), 404, kernel.CodeUnknownProvider, "")
	checkProblem(t, "without redis", d.ask(t, "POST", "/providers/away/probe", bearer(keyAll)), 503, kernel.CodeStoreDown, "")
	for _, key := range []string{keyStatus, keyStaging} {
		if a := d.ask(t, "POST", "/providers/main/probe", bearer(key)); a.status != 403 {
			t.Errorf("another key: %d %s", a.status, a.body)
		}
	}
	if len(d.buyer.probed) != 3 {
		t.Errorf("probed %q", d.buyer.probed)
	}
}
