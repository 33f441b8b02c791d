package simulatedtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/testkit"
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
		"html":                     {Fault{Kind: HTML}, 200, "<!DOCTYPE html>", 0},
		"html, but bought":         {Fault{Kind: HTML, Accepted: true}, 200, "<!DOCTYPE html>", 1},
		"500":                      {Fault{Kind: Status}, 500, "Internal Server Error", 0},
		"429":                      {Fault{Kind: Status, Status: 429}, 429, "Too Many Requests", 0},
		"redirect":                 {Fault{Kind: Redirect}, 307, "", 0},
		"types":                    {Fault{Kind: Types}, 200, `"request":[{"id":null}]`, 0},
		"code":                     {Fault{Kind: Code, Code: "ERROR: 1002"}, 200, `"request":"ERROR: 1002"`, 0},
		"code, but bought":         {Fault{Kind: Code, Code: "ERROR_SERVER_ERROR", Accepted: true}, 200, "SERVER", 1},
		"another action's":         {Fault{On: Poll, Kind: Drop}, 200, `{"status":1`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(optionsWith(func(o *Setup) { o.Faults = []Fault{c.fault} }))
			server := httptest.NewServer(s)
			// Closing the server waits for the calls that a fault delays, so the service must end them first.
			t.Cleanup(func() { s.Close(); server.Close() })
			limit := 10 * time.Second
			if c.fault.Kind == Hang {
				limit = 300 * time.Millisecond // only this limit ends these calls
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+recaptchaQuery("json", "1"), nil)
			testkit.NoError(t, err)
			resp, err := server.Client().Transport.RoundTrip(r) // follows no redirect
			testkit.Equal(t, fmt.Sprint("an error: ", err), err != nil, c.status == 0)
			if err == nil {
				body, err := io.ReadAll(resp.Body)
				testkit.NoError(t, errors.Join(err, resp.Body.Close()))
				testkit.Equal(t, "status", resp.StatusCode, c.status)
				if !strings.Contains(string(body), c.part) {
					t.Errorf("got %.60q", body)
				}
			}
			// The service may notice later than the caller that a call has ended.
			for s.Totals().Submitted+s.Totals().Refused == 0 {
				time.Sleep(time.Millisecond)
			}
			totals := s.Totals()
			testkit.Equal(t, "sold", totals.Submitted, c.sold)
			testkit.Equal(t, "refused", totals.Refused, 1-c.sold)
		})
	}
}
