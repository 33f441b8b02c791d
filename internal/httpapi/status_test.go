package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/redisdb"
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

// TestFullRedisKeepsReadiness: if Redis is out of memory, this replica stays ready, because it hands out the
// tokens in stock. /readyz and /status contain the reason.
func TestFullRedisKeepsReadiness(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.ill.Store(&redisdb.Health{Full: true, Reason: "redis is out of memory"})
	testkit.Equal(t, "readyz",
		d.ask(t, "GET", "/readyz").body, `{"ready":true,"reasons":["redis is out of memory"]}`+"\n")
	d.ask(t, "GET", "/status.json").check(t, "status", 200,
		`"redis":{"mode":"single","ok":false,"reason":"redis is out of memory"}`, `"ready":true`)
}
