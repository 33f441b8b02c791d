package kernel

import (
	"math/rand/v2"
	"net/http"
	"strconv"
)

// mostRequestID is the maximum length of a request id that a caller gives.
const mostRequestID = 64

// RequestID returns the id of a request. This is the value of its header X-Request-Id, if the value
// has 1 to 64 letters, digits, dots, underscores and hyphens, and otherwise a random id.
func RequestID(r *http.Request) string {
	if given := r.Header["X-Request-Id"]; len(given) == 1 && isRequestID(given[0]) {
		return given[0]
	}
	return strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // G404: an id is no secret
}

func isRequestID(text string) bool {
	if text == "" || len(text) > mostRequestID {
		return false
	}
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
