package simulated

import (
	"io"
	"net/http"
	"strconv"

	"poold/internal/provider/wire"
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 4 << 20

// price of a solve in answers that name it.
const price = "0.00299"

const (
	plainText = wire.PlainText
	jsonText  = wire.JSONText
	htmlText  = "text/html; charset=utf-8"
)

// answer is a whole HTTP answer before anything of it is sent, so that a fault
// can spoil it.
type answer struct {
	status int // 0 = 200, also for errors of the protocol
	kind   string
	body   []byte
	cors   bool // header_acao=1 was asked for
}

func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.body)
}

// head sends all but the body.
func (a answer) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.cors {
		h.Set("Access-Control-Allow-Origin", "*")
	}
	w.WriteHeader(max(a.status, http.StatusOK))
}

// answerOf wraps a reply of a protocol.
func answerOf(r wire.Reply) answer { return answer{kind: r.Type, body: r.Body} }

// statusAnswer is an answer that no protocol has a word for.
func statusAnswer(status int) answer {
	return answer{status: status, kind: plainText, body: []byte(http.StatusText(status))}
}

// request reads a call; whole is false if its body did not arrive.
func request(r *http.Request) (sent wire.Request, whole bool) {
	body, err := io.ReadAll(r.Body)
	return wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}, err == nil
}
