package simulated

import (
	"io"
	"net/http"
	"strconv"

	"poold/internal/provider/wire"
)

// maxBody limits the body of a request, in bytes.
const maxBody = 4 << 20

// price is the price of a solve in answers that have one.
const price = "0.00299"

// answer is a whole HTTP answer before any part of it is sent.
type answer struct {
	status int // 0 = 200, also for errors of the protocol
	kind   string
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.body)
}

// head sends all but the body.
func (a answer) head(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(max(a.status, http.StatusOK))
}

// answerOf wraps a reply of a protocol.
func answerOf(r wire.Reply) answer { return answer{kind: r.Type, body: r.Body} }

// statusAnswer is an answer outside both protocols.
func statusAnswer(status int) answer {
	return answer{status: status, kind: wire.PlainText, body: []byte(http.StatusText(status))}
}

// request reads a call; whole is false if its body did not arrive.
func request(r *http.Request) (sent wire.Request, whole bool) {
	body, err := io.ReadAll(r.Body)
	return wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}, err == nil
}
