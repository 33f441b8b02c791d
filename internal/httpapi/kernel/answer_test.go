package kernel

import (
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"testing"
	"time"
)

// TestPrefersTheNamedMediaType: a media type is preferred if the Accept header gives it more weight
// than application/json.
func TestPrefersTheNamedMediaType(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/plain": true, "text/plain; charset=utf-8": true, "TEXT/PLAIN, */*;q=0.1": true, "application/json;q=0.5, text/plain": true,
		"text/plain;q=0.5, */*": true, "text/html;q=0.9, text/plain, application/json;Q=0.5": true,
		"*/*": false, "": false, "text/*": false, "text/plain;q=0": false, "application/json": false,
		"application/json, text/plain, */*":           false, // a widespread library's default
		"text/html,application/xhtml+xml,*/*;q=0.8":   false,
		"text/plain;q=0.3, application/json;q=0.4":    false,
		"text/plainer, application/text/plain, plain": false,
	} {
		if Prefers([]string{accept}, "text/plain") != want {
			t.Errorf("Accept %q: %v", accept, !want)
		}
	}
	if !Prefers([]string{"text/html", "text/plain"}, "text/plain") {
		t.Error("only the first of two headers counts")
	}
}

func TestStampHasMilliseconds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 67_890_123, time.FixedZone("", 3600))
	for want, at := range map[string]time.Time{"2026-01-02T02:04:05.067Z": at, "2026-01-02T02:04:05.999Z": at.Add(932_109_876), "": {}} {
		if got := Stamp(at); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestAnswerWithoutAJSONFormIsAnError: if JSON cannot express a response, no part of the response
// is written, so that the caller gets a problem instead.
func TestAnswerWithoutAJSONFormIsAnError(t *testing.T) {
	w := httptest.NewRecorder()
	unsupported := (*json.UnsupportedValueError)(nil)
	if err := RespondJSON(w, math.NaN()); !errors.As(err, &unsupported) || w.Body.Len() > 0 || len(w.Header()) > 0 {
		t.Errorf("%v, %v, %q", err, w.Header(), w.Body)
	}
}
