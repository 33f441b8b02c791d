package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/testkit"
)

func must(_ any, err error) {
	if err != nil {
		panic(err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	testkit.NoError(t, err)
	return string(b)
}

// TestDescriptionHasTheDocument: openapi.yaml describes each member of the golden document of package status.
func TestDescriptionHasTheDocument(t *testing.T) {
	document, err := os.ReadFile("../status/testdata/document.json")
	testkit.NoError(t, err)
	testkit.NoError(t, openapitest.Check(&http.Response{
		StatusCode: http.StatusOK, Request: httptest.NewRequest(http.MethodGet, "/status.json", nil),
		Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {"some-id"}},
	}, document))
}

// TestTargetIsThatOfTheDocument: a target has the members that it has in the document, and the figures of the last day.
func TestTargetIsThatOfTheDocument(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 2)
	whole := parseAnswer[struct{ Targets []map[string]any }](t, d.ask(t, "GET", "/status.json")).Targets[1]
	one := parseAnswer[map[string]any](t, d.ask(t, "GET", "/pool/staging-login"))
	if one["last_day"] == nil || one["hour"].(map[string]any)["minutes"] == nil {
		t.Errorf("the target lacks its last day or its minutes: %v", one)
	}
	for _, name := range []string{"last_day", "hour", "next_expiry_s"} {
		delete(one, name)
		delete(whole, name)
	}
	testkit.Equal(t, "GET /pool/staging-login", asJSON(t, one), asJSON(t, whole))
}

// TestHealthAndReadiness: a replica is ready while it can hand out tokens of some targets: also if Redis is out of
// memory, which /readyz and the status tell, but neither without Redis nor while it stops. It is healthy all the time.
func TestHealthAndReadiness(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.say(t, "checkout", refill.Status{State: refill.Starved})
	for _, c := range []struct {
		redis redisdb.Health
		code  Code // "" = ready
		says  string
	}{
		{redisdb.Health{Up: true}, "", `{"ready":true}`},
		{redisdb.Health{Full: true, Reason: "redis is out of memory"}, "",
			`{"ready":true,"reasons":["redis is out of memory"]}`},
		{redisdb.Health{Reason: "redis does not answer (embedded:6379)", Since: day}, CodeStoreDown,
			"redis does not answer (embedded:6379), since 2026-01-02T03:04:05Z"},
		{redisdb.Health{Up: true}, CodeShuttingDown, "the daemon is stopping"},
	} {
		d.stock.ill.Store(&c.redis)
		if c.code == CodeShuttingDown {
			d.Stopping()
		}
		d.Status.Changed()
		d.ask(t, "GET", "/healthz").check(t, "alive", 200, `{"status":"ok"}`)
		ready := d.ask(t, "GET", "/readyz")
		ready.check(t, "ready", 0, c.says)
		if c.code != "" {
			checkProblem(t, c.says, ready, 503, c.code, "")
			testkit.Equal(t, "a Retry-After", ready.header.Get("Retry-After") != "", true)
		}
		d.ask(t, "GET", "/status.json").check(t, "the status", 200, fmt.Sprintf(`"ready":%v`, c.code == ""),
			fmt.Sprintf(`"redis":{"mode":"single","ok":%v,"reason":%q`, c.redis.Up, c.redis.Reason))
	}
}
