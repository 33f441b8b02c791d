package wire

import (
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// Action is the purpose of a call. All protocols have the same actions.
type Action string

// These are the actions. The comment of each names its calls in the protocols.
const (
	Submit  Action = "submit"  // in.php, createTask
	Poll    Action = "poll"    // get, get2, getTaskResult
	Balance Action = "balance" // getbalance, getBalance
	Report  Action = "report"  // reportgood, reportbad, and the paths of the protocol create_task
	Threads Action = "threads" // threadsinfo
	Other   Action = "other"   // all other calls, including calls of unknown paths
)

// Request contains the parts of an HTTP request that the parsers need.
type Request struct {
	Method, Path, ContentType, RawQuery string
	Body                                []byte
}

// Call is a parsed call of a protocol. Its methods make the responses of the protocol.
type Call struct {
	InPHP  bool // the protocol is in_php, else create_task
	Key    string
	Action Action
	Word   string   // for res.php: the value of the parameter `action`
	IDs    []string // for a Poll, a Report or another action: the ids of the tasks, unchanged; one unless Many is set
	Many   bool     // for a Poll: the parameter "ids" lists several tasks
	// for createTask's protocol: the client wants the task's id as text, in each reply, as CapSolver's does
	Text   bool
	Priced bool       // for a Poll: the action is get2, whose response includes the price
	Good   bool       // for a Report: the site accepted the token
	Order  Submission // for a Submit: the order
	JSON   bool       // for in_php: the client wants a response in JSON
	CORS   bool       // for in_php: any web page may read the response
	Bad    string     // the error code for a malformed call of any action; "" = the call is well-formed
}

// IsInPHPPath reports whether a path belongs to the protocol in_php.
func IsInPHPPath(path string) bool { return path == "/in.php" || path == "/res.php" }

// Read parses a call of the protocol to which the path belongs. For a malformed call, Read sets Bad and returns the
// parts that it could parse.
func Read(r Request) Call {
	if IsInPHPPath(r.Path) {
		return readInPHP(r)
	}
	return readCreateTask(r)
}

// Submission is what a client submits: the order of a call.
type Submission struct {
	Identity    captcha.Identity // only its form was checked; incomplete if Bad is set
	Image       []byte           // the picture whose hash is in Identity; nil for other types
	CallbackURL string           // the URL to which the service sends the result; "" = none
	Bad         string           // the error code for an invalid order of a well-formed call; "" = valid
	// the invalid field, if there is one: its key in pools.yaml, or its name in the protocol if it has no key
	BadField string
	Undone   []string // sorted names of the unknown fields that have a value
}

// TaskNumber parses the id of a task, which must consist of digits.
func TaskNumber(text string) (n int64, ok bool) {
	if len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(text, 10, 64) // 0 if the text is empty
	return n, n > 0
}

// refuse sets the error code of an order and the invalid field. If the order already has an error,
// refuse keeps it.
func (o *Submission) refuse(code, field string) {
	if o.Bad == "" {
		o.Bad, o.BadField = code, field
	}
}
