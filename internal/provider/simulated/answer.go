package simulated

import (
	"io"
	"net/http"
	"strconv"

	"poold/internal/provider/wire"
)

// maxBody is the maximum size of a request's body in bytes.
const maxBody = 4 << 20

// price is the price of a solve in responses.
const price = "0.00299"

// answer is a complete HTTP response before it is sent.
type answer struct {
	status int // HTTP status; 0 = 200, which also applies to errors of the protocols
	kind   string
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	a.sendHead(w)
	_, _ = w.Write(a.body)
}

// sendHead sends the status and the headers, but not the body.
func (a answer) sendHead(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(max(a.status, http.StatusOK))
}

// answerOf converts a reply of package wire to an answer.
func answerOf(r wire.Reply) answer { return answer{kind: r.Type, body: r.Body} }

// statusAnswer returns an answer with an HTTP status other than 200.
func statusAnswer(status int) answer {
	return answer{status: status, kind: wire.PlainText, body: []byte(http.StatusText(status))}
}

// readRequest reads an HTTP request. It returns false if the body did not arrive completely.
func readRequest(r *http.Request) (sent wire.Request, whole bool) {
	body, err := io.ReadAll(r.Body)
	return wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}, err == nil
}
