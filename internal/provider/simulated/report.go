package simulated

import (
	"time"

	"poold/internal/captcha"
)

const (
	codeNotRecorded = "REPORT_NOT_RECORDED"
	codeDuplicate   = "ERROR_DUPLICATE_REPORT"
	// codeOtherKind is never said as it stands: only the tasks protocol knows
	// the case, and there such a task does not exist.
	codeOtherKind = "another kind of task"
)

// verdict is a caller's word on a token.
type verdict struct {
	key, id string
	word    string                  // good | bad
	fits    func(captcha.Type) bool // the types that the call is for; nil = all
}

// tasksVerdicts are the reports of the tasks protocol, by path.
var tasksVerdicts = map[string]verdict{
	"/reportCorrect":            {word: "good"},
	"/reportIncorrect":          {word: "bad"},
	"/reportCorrectRecaptcha":   {word: "good", fits: isRecaptcha},
	"/reportIncorrectRecaptcha": {word: "bad", fits: isRecaptcha},
	"/reportIncorrectHcaptcha":  {word: "bad", fits: func(t captcha.Type) bool { return t == captcha.HCaptcha }},

	"/reportIncorrectImageCaptcha": {word: "bad", fits: func(t captcha.Type) bool { return t == captcha.Image }},
}

func isRecaptcha(t captcha.Type) bool {
	return t == captcha.RecaptchaV2 || t == captcha.RecaptchaV3
}

// report takes a verdict, once a task; the code says why not.
func (b *books) report(v verdict, at time.Time) (code string) {
	n, ok := taskNumber(v.id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(at)
	if code := b.limits.admit(v.key, at); code != "" {
		return code
	}
	t := b.tasks[n]
	switch {
	case !ok:
		return codeIDFormat
	case t == nil:
		return codeUnknownTask
	case v.fits != nil && !v.fits(t.identity.Type):
		return codeOtherKind
	case t.failed || at.Before(t.due):
		return codeNotRecorded
	case t.report != "":
		return codeDuplicate
	}
	t.report = v.word
	return ""
}
