package wire

import (
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
	Other   Action = "other"   // all else, also unknown paths
)

// The names of services whose fields differ from those of the others.
const (
	captchaAI  = "captchaai"
	twoCaptcha = "2captcha"
)

// Request is an HTTP request as far as the protocols look at it.
type Request struct {
	Method, Path, ContentType, RawQuery string
	Body                                []byte
}

// Order is the content of a submit.
type Order struct {
	Identity captcha.Identity // as complete as the fields allow, also beside Bad
	Image    []byte           // the picture, of which Identity has the hash; nil for other types
	Pingback string           // where the result is to be sent; "" = nowhere
	Bad      string           // the code for the first thing that is wrong with it; "" = nothing
	Undone   []string         // fields that say something and are not known here, sorted
}

// Verdict is a caller's word on a token, in a Report.
type Verdict struct {
	Good bool
	Fits func(captcha.Type) bool // the types that the call is for; nil = all
}

// TaskNumber reads a task's id, which must be digits.
func TaskNumber(text string) (n int64, ok bool) {
	if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	for _, digit := range text {
		n = 10*n + int64(digit-'0')
	}
	return n, n > 0
}

// oneOf is the text among several fields that mean the same; bad becomes the code where
// two of them differ.
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
