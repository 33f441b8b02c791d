package httpapi

import (
	"strings"
	"testing"
	"time"

	"poold/internal/testkit"
)

// TestManyIDsCountEachTokenOnce: a poll of several tasks hands out each token once, in the metrics
// and in the audit.
func TestManyIDsCountEachTokenOnce(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 3)
	var ids []string
	for range 3 {
		id, _ := strings.CutPrefix(d.callInPHP(t, inPHPSubmit(keyAll, "checkout")), "OK|")
		ids = append(ids, id)
	}
	testkit.Equal(t, "tokens", strings.Count(
		d.callInPHP(t, "/res.php?action=get&key="+keyAll+"&ids="+strings.Join(ids, ",")), tokenValue), 3)
	// The last token is counted after the response was sent.
	testkit.Within(t, 20*time.Second, "three tokens are counted", func() bool {
		return strings.Contains(d.ask(t, "GET", "/metrics", bearer(keyAll)).body, `poold_token_age_seconds_count 3`+"\n")
	})
	testkit.Equal(t, "in the audit", len(d.noted(t)), 3)
}
