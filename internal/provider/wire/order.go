package wire

import (
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// Action is the purpose of a call, in either protocol.
type Action string

// The actions.
const (
	Submit  Action = "submit"  // in.php, createTask
	Poll    Action = "poll"    // get, get2, getTaskResult
	Balance Action = "balance" // getbalance, getBalance
	Report  Action = "report"  // reportgood, reportbad, and the paths of the tasks protocol
	Threads Action = "threads" // threadsinfo
	Other   Action = "other"   // all others, also unknown paths
)

// The services whose fields differ.
const (
	captchaAI  = "captchaai"
	twoCaptcha = "2captcha"
)

// Request is the part of an HTTP request that the protocols read.
type Request struct {
	Method, Path, ContentType, RawQuery string
	Body                                []byte
}

// Order is the content of a submit.
type Order struct {
	Identity captcha.Identity // as far as it could be read if Bad is set
	Image    []byte           // the picture whose hash is in Identity; nil for other types
	Pingback string           // the URL that gets the result; "" = none
	Bad      string           // the code that refuses the order; "" = valid
	Undone   []string         // fields that are set and unknown, sorted
}

// Verdict is the content of a Report about a token.
type Verdict struct {
	Good bool
	Fits func(captcha.Type) bool // reports whether the call is for a type; nil = all types
}

// TaskNumber reads a task's id, which must be digits.
func TaskNumber(text string) (n int64, ok bool) {
	if len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(text, 10, 64) // 0 if empty
	return n, n > 0
}

// oneOf returns the text of fields with the same meaning. It sets bad if two of them differ.
func oneOf(bad *string, texts ...string) string {
	found := ""
	for _, text := range texts {
		switch {
		case text == "" || text == found:
		case found != "":
			*bad = CodeBadParams
		default:
			found = text
		}
	}
	return found
}
