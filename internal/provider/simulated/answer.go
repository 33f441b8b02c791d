package simulated

import (
	"io"
	"net/http"
	"strconv"

	"poold/internal/provider/wire"
)

// maxBody bounds what is read of a request, in bytes.
const maxBody = 4 << 20

// price is what a solve costs where an answer names it.
const price = "0.00299"

const (
	plainText = wire.PlainText
	jsonText  = wire.JSONText
	htmlText  = "text/html; charset=utf-8"
)

// answer is a whole HTTP answer before anything of it is sent, so that a fault
// can spoil it.
type answer struct {
	status int // 0 = 200: protocol errors are no HTTP errors
	kind   string
	body   []byte
	cors   bool // header_acao=1 was asked for
}

func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	// A caller that hung up is no concern of the service.
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

// answerOf is what a protocol says.
func answerOf(r wire.Reply) answer { return answer{kind: r.Type, body: r.Body} }

// statusAnswer is an answer that no protocol has a word for.
func statusAnswer(status int) answer {
	return answer{status: status, kind: plainText, body: []byte(http.StatusText(status))}
}

// request is what a call of a protocol says; false where its body did not arrive.
func request(r *http.Request) (wire.Request, bool) {
	body, err := io.ReadAll(r.Body)
	return wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}, err == nil
}
