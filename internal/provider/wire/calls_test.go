package wire

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// In testdata/calls.txt a line with ? is the query of a GET of in.php, a line with POST has the Content-Type, the query
// and the body of one, in which \n is the end of a line, a line with " has the fields of a task for a page and a site
// key, and any other line is a body of createTask. The next line, which is indented, says what the server reads.
func TestCalls(t *testing.T) {
	text, err := os.ReadFile("testdata/calls.txt")
	testkit.NoError(t, err)
	var read strings.Builder
	for line := range strings.Lines(string(text)) {
		if line[0] == '\t' {
			continue
		}
		read.WriteString(line)
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		c := Read(Request{Method: http.MethodPost, Path: "/createTask", Body: []byte(line)})
		posted, isPost := strings.CutPrefix(line, "POST ")
		switch {
		case isPost:
			kind, sent, _ := strings.Cut(posted, " ?")
			query, body, _ := strings.Cut(sent, " ")
			c = Read(Request{Method: http.MethodPost, Path: "/in.php", ContentType: kind, RawQuery: query,
				Body: []byte(strings.ReplaceAll(body, `\n`, "\r\n"))})
		case line[0] == '?':
			c = Read(Request{Method: http.MethodGet, Path: "/in.php", RawQuery: line[1:]})
		case line[0] == '"':
			c = Call{Order: readTask(t, line)}
		}
		read.WriteString("\t" + c.described() + "\n")
	}
	testkit.Published(t, "testdata/calls.txt", read.String())
}

// described says what a call means.
func (c *Call) described() string {
	identity, _ := json.Marshal(c.Order.Identity) // without the proxy
	text := string(identity)
	if bad := strings.TrimSpace(c.Bad + " " + c.Order.Bad); bad != "" {
		text = bad
	}
	for _, part := range [][2]string{
		{"key", c.Key}, {"field", c.Order.BadField}, {"undone", strings.Join(c.Order.Undone, " ")},
		{"callback", c.Order.CallbackURL},
		{"proxy", c.Order.Identity.ProxyType}, {"at", c.Order.Identity.Proxy.Reveal()},
	} {
		if part[1] != "" {
			text += ", " + part[0] + " " + part[1]
		}
	}
	return text
}
