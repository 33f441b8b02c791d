//go:build !race

package simulate

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// In every scenario of the repository's file, best costs at most 5 % more than the best fixed choice.
func TestShippedScenarios(t *testing.T) {
	out, err := runProviders(t, filepath.Join("..", "..", "docs", "scenarios.yaml"), "--seeds", "1", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Runs []ProvidersRow }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	scenarios := map[string]bool{}
	for _, r := range got.Runs {
		scenarios[r.Scenario] = true
		shares := 0.0
		for _, share := range r.Shares {
			shares += share
		}
		if shares < 0.999 || shares > 1.001 || r.Explored > 0.03 || r.HitRate <= 0 || r.HitRate > 1 || r.Cost <= 0 {
			t.Errorf("%+v", r)
		}
		if r.Choice == "best" && r.Relative > wantedOverall {
			t.Errorf("%s: best costs %.3f times the best fixed choice", r.Scenario, r.Relative)
		}
		if r.Choice != "best" && r.Explored > 0 {
			t.Errorf("%s: %s explores", r.Scenario, r.Choice)
		}
	}
	if len(scenarios) < 6 {
		t.Errorf("only %d scenarios", len(scenarios))
	}
}
