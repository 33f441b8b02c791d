package kernel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WriteLimit limits the time from the header of a request to the last byte of the response. The
// wait for a token is not included. A token or a page is a few kilobytes, so a client that needs
// more time is not reading the response.
const WriteLimit = 10 * time.Second

// All responses share these header values. The values never change, because net/http only reads
// them.
var (
	NoSniff      = []string{"nosniff"}
	closing      = []string{"close"}
	VaryAccept   = []string{"Accept"}
	VaryEncoding = []string{"Accept-Encoding"}
	CodingGzip   = []string{"gzip"}
	TypeText     = []string{"text/plain; charset=utf-8"}
)

// Respond writes a complete response that contains no token. Respond ignores write errors, because
// no token is lost with the response.
func Respond(w http.ResponseWriter, contentType string, body []byte) {
	RespondStatus(w, http.StatusOK, contentType, body)
}

// RespondStatus works like Respond, with the given status code.
func RespondStatus(w http.ResponseWriter, code int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// RespondJSON writes the value v as a JSON response.
func RespondJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	Respond(w, "application/json", append(body, '\n'))
	return nil
}

// AnswerWithin sets a new time limit for writing the response. Handlers call AnswerWithin in two
// cases: after work that may have used up the time limit, and before a wait that may exceed the
// limit.
func AnswerWithin(w http.ResponseWriter, limit time.Duration) {
	// If the writer does not support deadlines, the time limit of the server stays in force.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// Prefers reports whether an Accept header gives a media type a higher weight than
// application/json. A wildcard does not count, so `*/*` gets JSON.
func Prefers(accept []string, mediaType string) bool {
	wanted, ours := Quality(accept, mediaType), Quality(accept, "application/json")
	return wanted > 0 && wanted > ours
}

// Quality returns the weight of a media type or coding in an Accept or Accept-Encoding header.
// Wildcards are ignored. A type that the header does not name has the weight 0.
func Quality(accept []string, wanted string) float64 {
	best := 0.0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(name), wanted) {
				continue
			}
			weight := 1.0
			for param := range strings.SplitSeq(params, ";") {
				key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				if !strings.EqualFold(key, "q") {
					continue
				}
				if q, err := strconv.ParseFloat(value, 64); err == nil {
					weight = q
				}
			}
			best = max(best, weight)
		}
	}
	return best
}

// Stamp formats a time as the API does: RFC 3339 in UTC, to the millisecond. For the zero time the
// result is "".
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(AppendStamp(nil, t))
}

// AppendStamp appends the text that Stamp returns for t, which must not be the zero time.
func AppendStamp(b []byte, t time.Time) []byte {
	// Formatting with time.RFC3339 and appending the milliseconds is several times faster than a
	// custom layout.
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	const digits = "0123456789"
	return append(b[:len(b)-1], '.', digits[ms/100], digits[ms/10%10], digits[ms%10], 'Z')
}
