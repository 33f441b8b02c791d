package httpapi

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/targets"
)

const (
	// A pause with an end has one of these lengths.
	shortestPause = time.Second
	longestPause  = 30 * 24 * time.Hour
	mostReason    = 200 // characters
)

// What a body of /pause must be.
const (
	wantPause       = `the body must be empty, or one JSON object like {"for":"2h","reason":"..."}, each field given at most once`
	wantPauseFor    = `"for" must be a duration with a unit from 1s to 720h, such as "2h"`
	wantPauseReason = `"reason" must be a text of at most 200 characters, in one line`
)

// readPause reads the body of POST /pool/{target}/pause; without one the pause lasts until
// somebody resumes the target.
func readPause(r *http.Request, w http.ResponseWriter) (p pool.Pause, err error) {
	if r.ContentLength == 0 || r.Body == http.NoBody {
		return p, nil
	}
	_, err = kernel.ReadObject(r, w, wantPause, func(field string, value json.Token) (wrong string) {
		text, isText := value.(string)
		switch field {
		case "for":
			length, err := time.ParseDuration(text)
			if err != nil || length < shortestPause || length > longestPause {
				return wantPauseFor
			}
			p.Until = time.Now().Add(length)
		case "reason":
			if !isText || utf8.RuneCountInString(text) > mostReason {
				return wantPauseReason
			}
			if fault := targets.TextFault(text); fault != "" {
				return `"reason" ` + fault
			}
			p.Reason = text
		default:
			return wantPause
		}
		return ""
	})
	return p, err
}
