package httpapi

import (
	"strings"
	"testing"
	"time"

	"poold/internal/purchase"
)

// TestStrandedTasksAreNoticed: what nobody can be asked about stands on the status,
// with how many and until when.
func TestStrandedTasksAreNoticed(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.buyer.stranded = []purchase.Stranded{{Provider: "former", Orders: 6, Until: time.Date(2026, 1, 2, 16, 4, 5, 0, time.FixedZone("", 3600))}}
	const want = "6 paid tasks of provider former cannot be collected: no provider of the file has its account. They count until 15:04:05 UTC;"
	for _, path := range []string{"/status.json", "/status"} {
		if a := d.ask(t, "GET", path, "Accept: text/html"); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}
