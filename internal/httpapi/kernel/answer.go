package kernel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WriteLimit is how long a request may take, from its header to the last byte of its
// answer; the wait for a token comes on top. A token or a page is a few kilobytes; a client
// that needs longer is not reading.
const WriteLimit = 10 * time.Second

// Header values that never change, shared by all answers; net/http only reads them.
var (
	NoSniff      = []string{"nosniff"}
	closing      = []string{"close"}
	VaryAccept   = []string{"Accept"}
	VaryEncoding = []string{"Accept-Encoding"}
	CodingGzip   = []string{"gzip"}
	TypeText     = []string{"text/plain; charset=utf-8"}
)

// Respond writes a whole answer that holds no token. It ignores an error of the
// connection, because nothing must be taken back.
func Respond(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

// RespondJSON writes v.
func RespondJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	Respond(w, "application/json", append(body, '\n'))
	return nil
}

// AnswerWithin restarts the time limit of an answer. Earlier work may have used it up, or a wait
// follows that would.
func AnswerWithin(w http.ResponseWriter, limit time.Duration) {
	// Not every writer has deadlines; then the server's own limit stays.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// Prefers reports whether an Accept header names a media type, and
// application/json not before it. A wildcard names nothing: it gets JSON.
func Prefers(accept []string, mediaType string) bool {
	wanted, ours := Quality(accept, mediaType), Quality(accept, "application/json")
	return wanted > 0 && wanted > ours
}

// Quality returns the weight that an Accept or Accept-Encoding header gives to exactly
// this media type or coding, 0 if the header does not name it.
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

// Stamp formats a moment as everywhere in the API: RFC 3339 in UTC, to the millisecond.
// The zero time is "".
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(AppendStamp(nil, t))
}

// AppendStamp appends the Stamp of a moment that is not zero.
func AppendStamp(b []byte, t time.Time) []byte {
	// Formatting by time.RFC3339 and appending is several times faster than by a custom layout.
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	const digits = "0123456789"
	return append(b[:len(b)-1], '.', digits[ms/100], digits[ms/10%10], digits[ms%10], 'Z')
}
