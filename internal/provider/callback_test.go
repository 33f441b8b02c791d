package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// callbackOutcome describes a callback about a task of the given type.
func callbackOutcome(t *testing.T, kind, query, body string) string {
	t.Helper()
	values, err := url.ParseQuery(query)
	testkit.NoError(t, err)
	c, err := ReadCallback(values, []byte(body))
	if c.Err != nil && c.Solution != (Solution{}) || err != nil && c != (Callback{}) {
		t.Errorf("%.200s %.200s: %+v beside an error", query, body, c)
	}
	var e *Error
	text := "token " + c.Solution.Token
	switch {
	case errors.Is(err, ErrCallback):
		text = "(unreadable)"
	case err != nil:
		text = "(other) " + err.Error()
	case errors.As(c.Err, &e):
		text = e.Class.String() + " " + e.Code
	case c.Err != nil:
		text = "(other) " + c.Err.Error()
	case !IsAnswer(captcha.Type(kind), c.Solution.Token):
		text = "(not of the type)"
	}
	if c.Task != "" {
		text += ", task " + c.Task
	}
	return text + besides(c.Solution)
}

// callbackOf splits a line of testdata/callbacks.txt: ?, the query, a space and the body.
func callbackOf(line string) (query, body string) {
	query, body, _ = strings.Cut(strings.TrimPrefix(line, "?"), " ")
	return query, body
}

// ReadCallback reads the solutions of each type, in all forms in which services send them, and refusals.
func TestCallbacks(t *testing.T) {
	checkReplies(t, "callbacks.txt", func(heading []string, reply string) string {
		query, body := callbackOf(reply)
		return callbackOutcome(t, heading[0], query, body)
	})
}

func FuzzReadCallback(f *testing.F) {
	for _, r := range repliesOf(f, "callbacks.txt") {
		query, body := callbackOf(r.reply)
		f.Add(query, []byte(body))
	}
	f.Fuzz(func(t *testing.T, query string, body []byte) {
		values, _ := url.ParseQuery(query) // the part of the query that can be parsed
		c, err := ReadCallback(values, body)
		if err != nil {
			if !errors.Is(err, ErrCallback) || c != (Callback{}) {
				t.Fatalf("%+v beside %v", c, err)
			}
			// The error contains only texts of this package, so it cannot contain a token.
			if !strings.HasPrefix(err.Error(), ErrCallback.Error()+": ") || !hasOwnCause(err) {
				t.Fatalf("error %q", err)
			}
			return
		}
		if c.Task != "" && !isGraphic(c.Task, longTask) {
			t.Fatalf("task %q", c.Task)
		}
		if c.Err == nil {
			if !captcha.IsReadable(c.Solution.Token, maxReply) {
				t.Fatalf("solution %+v", c.Solution)
			}
			return
		}
		e := faultOf(t, c.Err)
		if c.Solution != (Solution{}) || e.Class != Task && e.Class != Parameters ||
			e.Code == "" || len(e.Code) > longCode || captcha.Printable(e.Code) != e.Code {
			t.Fatalf("%+v with %+v", c, e)
		}
		var doc struct{ Solution struct{ Token string } }
		if json.Unmarshal(body, &doc) == nil && len(doc.Solution.Token) >= longCode &&
			strings.Contains(fmt.Sprint(c.Err), doc.Solution.Token) {
			t.Fatalf("the error shows the token: %v", c.Err)
		}
	})
}

// hasOwnCause reports whether the cause of an error is one of this package's texts.
func hasOwnCause(err error) bool {
	cause, _ := strings.CutPrefix(err.Error(), ErrCallback.Error()+": ")
	return slices.Contains([]string{
		"too long", "not a well-formed form", "not a well-formed JSON object", "the id is not a task id",
		"the task is not ready", "a refusal with a token", "no readable token",
	}, cause)
}
