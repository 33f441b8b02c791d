package simulatedtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/provider/wire"
)

// The caller sees each fault on a real connection. The table states whether the task was bought.
func TestFaultsOnTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		fault  Fault
		status int    // 0 = the call ends in an error
		part   string // expected part of the readable response
		sold   int
	}{
		"dropped before accepting": {Fault{Kind: Drop}, 0, "", 0},
		"dropped answer":           {Fault{Kind: Drop, Accepted: true}, 0, "", 1},
		"never an answer":          {Fault{Kind: Hang}, 0, "", 0},
		"never, but bought":        {Fault{Kind: Hang, Accepted: true}, 0, "", 1},
		"a byte now and then":      {Fault{Kind: Slow}, 0, "", 1},
		"html":                     {Fault{Kind: HTML}, 200, "<!DOCTYPE html>", 0},
		"html, but bought":         {Fault{Kind: HTML, Accepted: true}, 200, "<!DOCTYPE html>", 1},
		"500":                      {Fault{Kind: Status}, 500, "Internal Server Error", 0},
		"429":                      {Fault{Kind: Status, Status: 429}, 429, "Too Many Requests", 0},
		"huge":                     {Fault{Kind: Huge}, 200, `{"status":1,"request":"AAAA`, 0},
		"redirect":                 {Fault{Kind: Redirect}, 307, "", 0},
		"types":                    {Fault{Kind: Types}, 200, `"request":[{"id":null}]`, 0},
		"code":                     {Fault{Kind: Code, Code: "ERROR: 1002"}, 200, `"request":"ERROR: 1002"`, 0},
		"code, but bought":         {Fault{Kind: Code, Code: "ERROR_SERVER_ERROR", Accepted: true}, 200, "SERVER", 1},
		"another action's":         {Fault{On: Poll, Kind: Drop}, 200, `{"status":1`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(optionsWith(func(o *Options) { o.Faults = []Fault{c.fault} }))
			server := serve(t, s)
			limit := 10 * time.Second
			if c.status == 0 && c.fault.Kind != Drop {
				limit = 300 * time.Millisecond // only this limit ends these calls
			}
			status, body, err := fetch(t, newHTTPClient(limit), server.URL+recaptchaQuery("json", "1"), hugeBody+1<<10)
			if c.status == 0 && err == nil {
				t.Errorf("got %d %q", status, body)
			}
			if c.status != 0 && (err != nil || status != c.status || !strings.Contains(body, c.part)) {
				t.Errorf("got %d %.60q, %v", status, body, err)
			}
			if c.fault.Kind == Huge && len(body) < hugeBody {
				t.Errorf("%d bytes", len(body))
			}
			// The service may notice later than the caller that a call has ended.
			for s.Totals().Submitted+s.Totals().Refused == 0 {
				time.Sleep(time.Millisecond)
			}
			totals := s.Totals()
			want(t, "sold", totals.Submitted, c.sold)
			want(t, "refused", totals.Refused, 1-c.sold)
		})
	}
}

// A fault's error code is spelled as in the caller's protocol.
func TestCodeFaultSpeaksBothProtocols(t *testing.T) {
	s := New(constantOptions)
	id := buy(t, s)
	s.SetFaults(Fault{Kind: Code, Code: "ERROR_ZERO_BALANCE", On: Submit}, Fault{Kind: Code, Code: wire.CodeNotReady})
	want(t, "plain", get(t, s, recaptchaQuery()), "ERROR_ZERO_BALANCE")
	v := post(t, s, "/createTask", createBody(`"type":"RecaptchaV2TaskProxyless"`))
	want(t, "tasks, number", v["errorId"], any(10.0))
	want(t, "tasks, code", v["errorCode"], any("ERROR_ZERO_BALANCE"))
	v = post(t, s, "/getTaskResult", `{"clientKey":"k","taskId":`+id+`}`)
	want(t, "not ready", v["status"], any("processing"))
	s.SetFaults(Fault{Kind: Code, Code: "ERROR_NEW"})
	v = post(t, s, "/getTaskResult", `{"clientKey":"k","taskId":`+id+`}`)
	want(t, "unknown code", v["errorId"], any(1.0))
}

func TestOtherTask(t *testing.T) {
	s := New(optionsWith(func(o *Options) { o.Key = "k" }))
	first := buy(t, s)
	s.SetFaults(Fault{Kind: OtherTask})
	want(t, "id", buy(t, s), first)
	want(t, "refusal", get(t, s, recaptchaQuery("key", "x")), "ERROR_KEY_DOES_NOT_EXIST")
	want(t, "poll", poll(t, s, first), "CAPCHA_NOT_READY")
	want(t, "submitted", s.Totals().Submitted, 2)
}

// Times, Share and When select the calls on which a fault acts. If several faults match, only the
// first one acts.
func TestFaultsChooseTheirCalls(t *testing.T) {
	s := New(constantOptions)
	failed := func(n int) (hit []int) {
		for i := range n {
			if strings.HasPrefix(get(t, s, recaptchaQuery()), "ERROR") {
				hit = append(hit, i)
			}
		}
		return hit
	}
	s.SetFaults(Fault{Kind: Code, Code: "ERROR_A", Times: 2}, Fault{Kind: Code, Code: "B", On: Poll})
	want(t, "times", len(failed(5)), 2)
	want(t, "the next fault", poll(t, s, "1"), "B")
	s.SetFaults()
	want(t, "healed", len(failed(5)), 0)

	other := func(c Call) bool { return c.Action == Submit && c.Identity.Sitekey == "other" }
	s.SetFaults(Fault{Kind: Code, Code: "ERROR_A", When: other})
	want(t, "when", get(t, s, recaptchaQuery("googlekey", "other")), "ERROR_A")
	want(t, "not when", len(failed(5)), 0)
	mine := func(c Call) bool { return c.Task == "77" }
	s.SetFaults(Fault{Kind: Code, Code: "ERROR_MINE", When: mine})
	want(t, "by task", poll(t, s, "77"), "ERROR_MINE")
	want(t, "other task", poll(t, s, "78"), "ERROR_WRONG_CAPTCHA_ID")

	share := Fault{Kind: Code, Code: "ERROR_A", Share: 0.2}
	s.SetFaults(share)
	first := failed(500)
	if len(first) < 70 || len(first) > 130 {
		t.Errorf("%d of 500 hit", len(first))
	}
	s.SetFaults(share)
	want(t, "the same calls again", slices.Equal(first, failed(500)), true)
	share.Share = 1
	s.SetFaults(share)
	want(t, "all", len(failed(20)), 20)
}

// Close ends a call that a fault delays, and drops pingbacks that are not due yet.
func TestClose(t *testing.T) {
	s := New(constantOptions)
	server := serve(t, s)
	buy(t, s, "pingback", "http://127.0.0.1:1/never")
	s.SetFaults(Fault{Kind: Hang})
	held := make(chan error, 1)
	go func() {
		_, _, err := fetch(t, newHTTPClient(0), server.URL+recaptchaQuery(), 1<<10)
		held <- err
	}()
	for s.Totals().Refused == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if err := <-held; err == nil {
		t.Error("the delayed call got an answer")
	}
	s.SetFaults()
	buy(t, s, "pingback", "http://127.0.0.1:1/never") // starts nothing; TestMain looks for leaked goroutines
}

func TestFaultsOverHTTP(t *testing.T) {
	s := New(optionsWith(func(o *Options) { o.LedgerHTTP = true }))
	put := func(s *Service, body string) int { return handle(t, s, http.MethodPut, "/faults", "", body).Code }
	faults, err := json.Marshal([]Fault{{On: Submit, Kind: Code, Code: "ERROR_A", Times: 1}, {On: Submit, Kind: Code, Code: "ERROR_B"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "put", put(s, string(faults)), http.StatusNoContent)
	want(t, "the first", get(t, s, recaptchaQuery()), "ERROR_A")
	for _, body := range []string{``, `{}`, `[{]`, `[{"Kid":"drop"}]`} {
		if status := put(s, body); status != http.StatusBadRequest {
			t.Errorf("%.50s: status %d", body, status)
		}
	}
	want(t, "the old ones stay", get(t, s, recaptchaQuery()), "ERROR_B")
	want(t, "an empty list", put(s, `[]`), http.StatusNoContent)
	buy(t, s)
	want(t, "without LedgerHTTP", put(New(constantOptions), `[]`), http.StatusNotFound)
}
