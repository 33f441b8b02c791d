package simulated

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// put sends a PUT and returns the status.
func put(t *testing.T, s *Service, body string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/faults", strings.NewReader(body))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

func TestFaultsOverHTTP(t *testing.T) {
	s := New(with(func(o *Options) { o.LedgerHTTP = true }))
	faults, err := json.Marshal([]Fault{{On: Submit, Kind: Code, Code: "ERROR_A", Times: 1}, {On: Submit, Kind: Code, Code: "ERROR_B"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "put", put(t, s, string(faults)), http.StatusNoContent)
	want(t, "the first", get(t, s, recaptcha()), "ERROR_A")
	want(t, "the second", get(t, s, recaptcha()), "ERROR_B")
	for _, body := range []string{
		``, `{}`, `[{]`, `[{"Kind":"drpo"}]`, `[{"On":"sumbit"}]`, `[{"Kid":"drop"}]`, `[{"Share":2}]`,
		`[{"Delay":"1s"}]`, `[{"Kind":"drop"},{"Kind":"x"}]`, `[{"Code":"` + strings.Repeat("x", maxBody) + `"}]`,
	} {
		if status := put(t, s, body); status != http.StatusBadRequest {
			t.Errorf("%.50s: status %d", body, status)
		}
	}
	want(t, "the old ones stay", get(t, s, recaptcha()), "ERROR_B")
	want(t, "an empty list", put(t, s, `[]`), http.StatusNoContent)
	buy(t, s)
	want(t, "calls", s.Totals().Calls, 4)

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/faults", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	want(t, "GET", w.Code, http.StatusMethodNotAllowed)
	want(t, "without leave", put(t, New(constant), `[]`), http.StatusNotFound)
}

// All of Options but what only lives in a process goes to another one.
func TestOptionsTravel(t *testing.T) {
	o := Options{
		Flavour: TwoCaptcha, Median: time.Second, Threads: 3, Ledger: true, Bans: Bans{Keys: true},
		PingDelay: time.Second, PingShare: 0.5, PingEarly: true, PingRepeat: 2,
		Faults: []Fault{{On: Poll, Share: 0.5, Times: 2, Kind: Drop, Accepted: true, Delay: time.Second, Code: "X", Status: 429}},
	}
	sent := o
	sent.Faults = []Fault{o.Faults[0]}
	sent.Faults[0].When = func(Call) bool { return false }
	text, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var arrived Options
	if err := json.Unmarshal(text, &arrived); err != nil || !reflect.DeepEqual(arrived, o) {
		t.Errorf("%s arrives as %+v, %v", text, arrived, err)
	}
}
