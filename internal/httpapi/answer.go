package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// writeLimit is how long a request may take, from its header to the last byte of its
// answer; the wait for a token comes on top. A token or a page is a few kilobytes; who
// needs longer is not reading.
const writeLimit = 10 * time.Second

// Header values that never change, shared by all answers; net/http only reads them.
var (
	noSniff      = []string{"nosniff"}
	noStore      = []string{"no-store"}
	closing      = []string{"close"}
	varyAccept   = []string{"Accept"}
	varyEncoding = []string{"Accept-Encoding"}
	codingGzip   = []string{"gzip"}
	typeJSON     = []string{"application/json"}
	typeText     = []string{"text/plain; charset=utf-8"}
)

// respond writes a whole answer that is no token. A client that is gone is not
// an error: there is nothing to take back.
func respond(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

// respondJSON writes v, which holds nothing that JSON cannot say.
func respondJSON(w http.ResponseWriter, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	respond(w, "application/json", body)
	return nil
}

func encodeJSON(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return append(body, '\n'), nil
}

// answerWithin gives an answer its time anew, from now on: what went before may have
// taken all of it, or is about to.
func answerWithin(w http.ResponseWriter, limit time.Duration) {
	// Not every writer has deadlines; then the server's own limit stays.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// prefers reports whether an Accept header names a media type, and
// application/json not before it. A wildcard names nothing: it gets JSON.
func prefers(accept []string, mediaType string) bool {
	wanted, ours := quality(accept, mediaType), quality(accept, "application/json")
	return wanted > 0 && wanted > ours
}

// quality returns the weight that an Accept or Accept-Encoding header gives to exactly
// this media type or coding, 0 if the header does not name it.
func quality(accept []string, wanted string) float64 {
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
